"""A command without its libraries says which extra has them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from crabka.cli.extras import needs_extra
from crabka.errors import ConfigError


@pytest.mark.parametrize(("module", "extra"), [("pyspark.sql", "spark"), ("numba", "spark"), ("grpc", "spark,connect")])
def test_a_missing_library_becomes_one_sentence(module: str, extra: str) -> None:
    with (
        pytest.raises(ConfigError, match=rf"crabka stats needs libraries .* pip install '.\[{extra}\]'"),
        needs_extra("crabka stats"),
    ):
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)


def test_another_missing_module_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("crabka stats"):
        raise ModuleNotFoundError("No module named 'crabka.misspelt'", name="crabka.misspelt")


# Runs commands in an environment that lacks some libraries, whatever this one has. Commands that would connect to a
# cluster, or open a tier, must not come that far.
_WITHOUT = """
import contextlib, io, json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing, commands = json.loads(sys.argv[1])
sys.meta_path.insert(0, Missing())
from crabka.cli.main import execute
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = execute(command)
    print(json.dumps([code, err.getvalue()]))
"""
_TO = ["--to", "nowhere"]
_SPARK_COMMANDS = [
    ["stats", "orders"],
    ["stats", "orders", "--plot", "days.png"],
    ["audit", "--tier", "nowhere"],
    ["replay", "orders", "--to", "again"],
    ["lake", "sync", "orders", *_TO],
    ["lake", "status", "orders", *_TO],
    ["lake", "rewind", "orders", *_TO],
    ["lake", "compact", "orders", *_TO],
    ["lake", "vacuum", "orders", *_TO],
]


def run_without(missing: list[str], commands: list[list[str]], directory: Path) -> list[tuple[int, str]]:
    given = json.dumps([missing, commands])
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, given], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in map(json.loads, done.stdout.splitlines())]


def test_without_the_spark_extra_its_commands_say_so_and_the_others_work(tmp_path: Path) -> None:
    others = [["--help"], ["stats", "--help"], ["recover", "--help"], ["random-uuid"], ["up", "--help"]]
    found = run_without(["pyspark", "pyarrow", "pandas", "numba", "deltalake"], [*_SPARK_COMMANDS, *others], tmp_path)
    for command, (code, text) in zip(_SPARK_COMMANDS, found, strict=False):
        assert code == 2, (command, text)
        assert text.startswith(f"crabka: crabka {command[0]} needs libraries that are not installed: run pip"), command
        assert text.count("\n") == 1
    assert [each for each in found[len(_SPARK_COMMANDS) :] if each != (0, "")] == []


def test_without_the_connect_extra_a_remote_spark_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as remote:
        master = f"sc://127.0.0.1:{remote.getsockname()[1]}"
        ((code, text),) = run_without(["grpc", "grpc_status"], [["stats", "orders", "--master", master]], tmp_path)
    assert (code, text.count("\n")) == (2, 1)
    assert "crabka stats needs libraries that are not installed: run pip install '.[spark,connect]'" in text
