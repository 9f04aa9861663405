"""The typer application: all commands but `up` and `serve`, which `main` starts without typer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from crabka import __version__
from crabka.cli import completion
from crabka.cli.acls import commands as acls
from crabka.cli.cluster import brokers, quorum
from crabka.cli.cluster import local as cluster
from crabka.cli.doctor import commands as doctor_command
from crabka.cli.explanations import one_line
from crabka.cli.groups import groups
from crabka.cli.lake import audit as audit_command
from crabka.cli.lake import commands as lake
from crabka.cli.lake import recover as recover_command
from crabka.cli.lake import replay as replay_command
from crabka.cli.lake import stats as stats_command
from crabka.cli.log_dirs import commands as log_dirs
from crabka.cli.main import COMPLETION_VARIABLE
from crabka.cli.node import format as format_command
from crabka.cli.node import serve, up
from crabka.cli.program import NAME, as_typed
from crabka.cli.quotas import commands as quotas
from crabka.cli.tier import commands as tier
from crabka.cli.topics import configs, offsets, partitions, records, topics
from crabka.cli.transactions import commands as transactions
from crabka.cli.tree import build_tree
from crabka.cli.users import commands as users

app = typer.Typer(
    name="crabka",
    help="A Kafka-compatible broker and its tools.",
    no_args_is_help=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(topics.app, name="topics")
app.add_typer(records.app, name="records")
app.add_typer(offsets.app, name="offsets")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(acls.app, name="acls")
app.add_typer(users.app, name="users")
app.add_typer(quotas.app, name="quotas")
app.add_typer(brokers.app, name="brokers")
app.add_typer(cluster.app, name="cluster")
app.add_typer(log_dirs.app, name="log-dirs")
app.add_typer(partitions.app, name="partitions")
app.add_typer(quorum.app, name="quorum")
app.add_typer(tier.app, name="tier")
app.add_typer(transactions.app, name="transactions")
app.add_typer(lake.app, name="lake")
app.command("format", help="Prepare the directories of a node, as kafka-storage format does.")(format_command.format_)
app.command("random-uuid", help="Print a new id for a cluster or a directory.")(format_command.random_uuid)

app.command("doctor")(doctor_command.doctor)
app.command("audit", help="Scrub a tier with Spark.")(audit_command.audit)
app.command("recover", help="Make the data dir of a node from a bucket alone.")(recover_command.recover)
app.command("replay", help="Write a range of a tier or a table to a topic, exactly once.")(replay_command.replay)
app.command("stats", help="Count what is in a tier, per topic and day.")(stats_command.stats)
app.command("completion", help="Print the script that lets a shell complete commands.")(completion.completion)

# Listed for the help text; `main` runs them without this module.
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("up", help="Start one node, formatting its directory if it is new.", context_settings=_PASS_ON)
def _up(context: typer.Context) -> None:
    raise typer.Exit(up.main(context.args))


@app.command("serve", help="Start a node from a server.properties file.", context_settings=_PASS_ON)
def _serve(context: typer.Context) -> None:
    raise typer.Exit(serve.main(context.args))


def _with_hint(error: typer.BadParameter) -> str:
    """Return the text of a mistake on one line, with the command that explains the options."""
    # The library that checks values for typer puts its own words before the reason.
    text = one_line(error.format_message()).replace(": Value error, ", ": ")
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text.removesuffix('.')} (see `{context.command_path} -h`)"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"crabka {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A Kafka-compatible broker and its tools. `crabka COMMAND -h` explains a command with examples."""


# BadParameter → UsageError → the base of what typer raises about the command line.
_UsageProblem: type[typer.BadParameter] = typer.BadParameter.__mro__[2]
# Typer's name of the error for a group without a command: its text is the help.
_GROUP_ALONE: Final = "NoArgsIsHelpError"


def main(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. A mistake on the command line becomes one line on stderr and exit code 2."""
    try:
        result = build_tree(app).main(
            args=list(arguments), prog_name=NAME, complete_var=COMPLETION_VARIABLE, standalone_mode=False
        )
    except _UsageProblem as error:
        if type(error).__name__ == _GROUP_ALONE:
            print(error.format_message())
            return 2
        print(f"crabka: {as_typed(_with_hint(error))}", file=sys.stderr)
        return 2
    except typer.Abort:
        return 130
    return result if isinstance(result, int) else 0
