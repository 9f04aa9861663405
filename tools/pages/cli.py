"""docs/cli.md: the convention of the commands, all of them, and what those that list and describe print."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools.pages.cli_stage import TIME, Stage, stage

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTRODUCTION: Final = """\
# Commands

<!-- Made by tools/generate_docs.py from src/crabka/cli and from what commands print beside a node. Change the commands
or tools/pages/cli.py, then run `make docs`. -->

`crabka COMMAND -h` explains a command with examples. What follows holds for all commands.

**Cluster.** `--bootstrap HOST:PORT[,HOST:PORT]` (`-b`, or `CRABKA_BOOTSTRAP`; 127.0.0.1:9092) names brokers of Crabka
or of Apache Kafka. `--command-config FILE` (or `CRABKA_COMMAND_CONFIG`) has client properties for TLS and SASL.

**Output.** On a terminal a table, never wider than it: less important columns are left out by name, or each row
becomes a block of lines. Sizes, time spans and times are readable there. In a pipe the same rows are lines with tabs
and a header, and `--json` prints JSON with all columns; both have plain numbers, in the unit that the name of the
column ends with (`size_bytes`, `age_ms`, timestamps in milliseconds since 1970). What is not known is `-`, nothing,
or `null`. Notes and progress are on stderr. `NO_COLOR` switches colours off.

**Plans.** What reads, creates, or can be undone by another command acts at once. What deletes data, or computes what
it changes, shows its plan, and carries it out with `--execute` (`--yes`, `-y`); the tables below say which. Two more
things delete: `tier fsck --delete-orphans` what no metadata names, and `lake vacuum` what no version of a table has
had for `--grace`. `recover` takes `--dry-run`; it only writes to a new directory.

**Durations and sizes.** `500ms`, `30s`, `15m`, `12h`, `7d`, `2w`; `64MiB` (1024 based) and `1GB` (1000 based), in
options and as values of settings: `--config retention.ms=7d`, `configs alter --set segment.bytes=64MiB`, `up --set
log.retention.hours=7d`. A size without a unit is bytes. `configs describe` shows values as they are stored.

**Times and offsets.** A time is in ISO form (UTC without a zone) or in milliseconds since 1970.

**Exit codes.** 0 done, 1 failed, 2 bad input (a wrong option, file or value), 130 interrupted. Checks: 0 clean, 1
faults, 2 could not check. An error is one sentence on stderr. A command that it suggests is spelt as `crabka` was
started.

**Completion.** `eval "$(crabka completion bash)"` in `~/.bashrc`; `crabka completion zsh` and `fish` print a file for
these.
"""

_SHORT: Final = "at once"
_PLAN: Final = "`--execute`"
_ACTS_UNLESS: Final = {"partitions elect-leaders": "at once; `--unclean`: `--execute`"}


class Shown(NamedTuple):
    """A command in the page, with the cells that differ from run to run."""

    command: str
    steady: Mapping[str, str] = {}


SHOWN: Final = (
    Shown("topics list"),
    Shown("topics describe orders"),
    Shown("topics delete orders"),
    Shown("records consume orders:0 --count 2"),
    Shown("offsets get orders"),
    Shown("groups list"),
    Shown("groups describe billing"),
    Shown("groups reset billing --topic orders --to-earliest"),
    Shown("configs describe topic orders"),
    Shown("transactions list"),
    Shown("acls list"),
    Shown("users list"),
    Shown("quotas list"),
    Shown("brokers list"),
    Shown("partitions reassign --list"),
    Shown("log-dirs list", {"size_bytes": "2.4 MiB"}),
    Shown("log-dirs check"),
    Shown("quorum describe", {"high_watermark": "143"}),
    Shown("quorum describe --replication", {"log_end": "144"}),
    Shown("cluster status --data-dir ./crabka-cluster"),
    Shown("tier status"),
    Shown("tier ls"),
    Shown("lake status orders --to ./lake --format parquet --offline", {"timestamp_ms": TIME, "size_bytes": "3.0 KiB"}),
)


@cache
def cli_page() -> str:
    """Return the page. It needs a node, so it is made once in a process."""
    from crabka.cli.app import app
    from crabka.cli.tree import build_tree, is_group

    root = build_tree(app)
    with stage() as found:
        parts = [_INTRODUCTION, "## All commands", _transcript(found, Shown("--help"))]
        alone = {name: command for name, command in root.commands.items() if not is_group(command)}
        parts += ["## Commands without a group", _table(alone)]
        for name, group in root.commands.items():
            if is_group(group):
                commands = {f"{name} {each}": command for each, command in group.commands.items()}
                parts += [f"## crabka {name}", _table(commands)]
                parts += [_transcript(found, each) for each in SHOWN if each.command.split()[0] == name]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _transcript(found: Stage, shown: Shown) -> str:
    return f"```console\n$ crabka {shown.command}\n{found.show(shown.command, shown.steady)}\n```"


def _table(commands: Mapping[str, Any]) -> str:
    rows = [f"| `{words}` | {command.short_help} | {_acts(words, command)} |" for words, command in commands.items()]
    return "\n".join(["| command | what it does | acts |", "|---|---|---|", *rows])


def _acts(words: str, command: Any) -> str:
    takes_plan = any(parameter.name == "execute" for parameter in command.params)
    return _ACTS_UNLESS.get(words, _PLAN if takes_plan else _SHORT)
