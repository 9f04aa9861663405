"""Errors become one line and an exit code."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.cli import main
from crabka.cli.app import app
from crabka.cli.examples import examples_of
from crabka.cli.tree import build_tree, leaves
from tests.unit.cli.conftest import RunCommand

CONTROLLER = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:1
log.dirs={dir}
"""
# What help calls values that are not texts.
TYPED = {"N", "X", "DURATION", "SIZE", "RECORDS"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("up", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("up", "--tier", "ftp://bucket"), "--tier ftp://bucket: ftp://bucket is no storage"),
        (("up", "--set", "num.partitions=x"), "Invalid value x for configuration num.partitions"),
        (("up", "--listen", "nowhere"), "'nowhere' is not an address of the form HOST:PORT"),
        (("serve", "--config", "no-such-file"), "cannot read no-such-file: No such file or directory"),
        (("serve",), "the following arguments are required: --config"),
        (("topics", "list", "--bootstrap", "host:port"), "'host:port' is not host:port"),
        (("nonsense",), "No such command 'nonsense' (see `crabka -h`)"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(crabka: RunCommand, arguments: tuple[str, ...], message: str) -> None:
    outcome = crabka(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"crabka: {message}")
    assert outcome.err.count("\n") == 1


@pytest.fixture(scope="module")
def closed_address() -> Iterator[str]:
    """An address without a listener, which no other program takes."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


# Those that ask a cluster, with arguments that are right. Those of the lake, which are left out, open tables or
# start Spark first.
ASKING = sorted(
    words
    for words, command in leaves(build_tree(app))
    if "bootstrap" in {parameter.name for parameter in command.params}
    and words not in {"lake sync", "lake rewind", "lake status", "audit", "replay", "stats"}
)


@pytest.mark.parametrize("words", ASKING)
def test_a_cluster_that_is_not_there_is_one_sentence(
    crabka: RunCommand, tmp_path: Path, closed_address: str, words: str
) -> None:
    config = tmp_path / "controller.properties"
    config.write_text(CONTROLLER.format(dir=tmp_path / "data"))
    (tmp_path / "kafka-tiered-storage").mkdir()
    example = examples_of(words)[-1].partition(" < ")[0].replace("/var/lib/cold", str(tmp_path))
    arguments = shlex.split(example.replace("controller.properties", str(config)))[1:]
    if words == "quorum add":
        assert crabka("format", "--config", str(config), "--standalone").code == 0
    if words in {"log-dirs check", "doctor"}:
        # Their last example is about a directory.
        arguments = words.split()
    # `users add` reads a password.
    outcome = crabka(*arguments, "--bootstrap", closed_address, "--timeout", "1s", stdin=b"line\n")
    # Checks have an exit code of their own.
    assert outcome.code == (2 if words in {"tier verify", "tier fsck", "doctor"} else 1)
    assert outcome.out == ""
    *notes, line = outcome.err.splitlines()
    assert notes == []
    assert line.startswith("crabka: ")
    assert f"cannot connect to {closed_address}: Connection refused" in line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("records consume t --from nonsense", "nonsense: neither earliest, latest,"),
        ("records produce t v --codec rar", "--codec rar: not one of none, gzip,"),
        ("records produce t v --header x", "--header x: not of the form key=value"),
        ("records delete-before t:0:x", "t:0:x: not of the form TOPIC:PARTITION:OFFSET"),
        ("offsets get t --at nonsense", "nonsense: neither earliest, latest,"),
        ("topics create t -c novalue", "--config novalue: not of the form key=value"),
        ("topics create t -c segment.bytes=1.5B", "segment.bytes=1.5B is not a whole number of bytes"),
        ("topics list --command-config none", "cannot read none: No such file or directory"),
        ("configs describe broker x", "x is not a broker id"),
        ("configs describe topic", "which topic? give its name"),
        ("configs alter topic t --set x", "--set x: not of the form key=value"),
        ("configs alter topic t --set retention.ms=0.1ms", "retention.ms=0.1ms is not a whole number of ms"),
        ("groups reset g -t t --to-timestamp soon", "soon: neither milliseconds since 1970 nor a time"),
        ("partitions reassign --topics t --brokers 1,x", "--brokers 1,x: not ids of nodes"),
        ("partitions reassign --file none", "cannot read none: No such file or directory"),
        ("log-dirs move t --to /x", "t: not of the form TOPIC-PARTITION"),
        ("log-dirs check --dir none", "none: No such file or directory"),
        ("quorum remove -i 1 -d short", "--directory-id: 'short' is not a base64url UUID"),
        ("quorum add --config none", "cannot read none: No such file or directory"),
        ("quorum repair --data-dir none", "none does not exist"),
        ("tier forget t", "t is not a partition: TOPIC:PARTITION is needed"),
        ("tier ls t:x", "t:x: not of the form TOPIC or TOPIC:PARTITION"),
        ("tier fsck --tier ftp://x", "could not check: ftp://x is no storage: use file:///directory"),
        ("tier fsck --config none", "could not check: cannot read none: No such file or directory"),
        ("recover --tier ftp://x --dry-run", "ftp://x is no storage: use file:///directory"),
        ("lake status t --to none --format csv", "csv is not a table format: use delta, iceberg, parquet"),
        ("lake sync t --to none --value xml", "xml is not a value mode: use raw, json"),
        ("replay a --to b --codec rar", "--codec rar: not one of none, gzip,"),
        ("stats", "name topics, or a --pattern of their names"),
        ("format --config none", "cannot read none: No such file or directory"),
        ("cluster status --data-dir none", "none holds no cluster: `crabka cluster demo` makes one"),
        ("cluster demo --data-dir none --base-port 99999", "--base-port 99999: there must be 6 ports from it on"),
        ("up --set log.retention.ms=1.5ms", "log.retention.ms=1.5ms is not a whole number of ms"),
        ("up --log-level loud", "argument --log-level: invalid choice: 'loud'"),
    ],
)
def test_a_wrong_value_is_one_sentence(
    crabka: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = crabka(*line.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"crabka: {message}")
    assert outcome.err.count("\n") == 1


def typed_options() -> Iterator[tuple[str, str]]:
    """Yield each option that is more than a text, with its command."""
    for words, command in leaves(build_tree(app)):
        for parameter in command.params:
            is_typed = parameter.type_descriptor.annotation is not bool and parameter.metavar in TYPED
            if parameter.param_type_name == "option" and (is_typed or parameter.type_descriptor.is_choice):
                yield words, parameter.opts[0]


@pytest.mark.parametrize(("words", "option"), list(typed_options()))
def test_garbage_for_an_option_names_the_option(crabka: RunCommand, words: str, option: str) -> None:
    outcome = crabka(*words.split(), option, "gar\x1b[2Jbage")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"crabka: Invalid value for '{option}'")
    assert outcome.err.endswith(f"(see `crabka {words} -h`)\n")
    assert outcome.err.count("\n") == 1
    assert "\x1b" not in outcome.err


def test_without_arguments_the_help_is_shown(crabka: RunCommand) -> None:
    outcome = crabka()
    assert outcome.code == 0
    for command in (
        "up",
        "serve",
        "format",
        "topics",
        "configs",
        "records",
        "offsets",
        "brokers",
        "quorum",
        "partitions",
        "cluster",
        "tier",
    ):
        assert command in outcome.out


def test_ctrl_c_is_reported_as_in_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert main.execute(["topics"]) == main.EXIT_INTERRUPTED


def test_run_exits_with_the_code_of_the_command() -> None:
    with pytest.raises(SystemExit) as stop:
        main.run(["up", "--nonsense"])
    assert stop.value.code == 2


def test_starting_a_node_loads_neither_typer_nor_rich() -> None:
    program = (
        "import sys; from crabka.cli.main import execute; execute(['up', '--set', 'x']); "
        "import crabka.node.node; print([m for m in ('typer', 'rich', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
