"""A node as a process: settings, one line on stdout, an orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crabka.cli.node import process as node_process
from crabka.cli.node.process import load_config, node_parser, parse_arguments, parse_settings, warn_of_file_limit
from crabka.config.presets import one_node_properties
from crabka.config.properties import parse_properties
from crabka.errors import ConfigError, StorageError
from crabka.runtime import real_runtime
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
from tests.unit.cli.conftest import RunCommand


def test_settings_are_split_at_the_first_equals_sign() -> None:
    assert parse_settings(["a=b=c", " d = e "], "--set") == {"a": "b=c", "d": "e"}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_setting_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not of the form key=value"):
        parse_settings([text], "--set")


def test_warnings_about_settings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    properties = {**one_node_properties("data", "h", 1), "num.partitionz": "3"}
    with caplog.at_level(logging.WARNING):
        load_config(properties)
    assert "did you mean num.partitions?" in caplog.text


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_arguments(node_parser("up", "Start."), ["--help"]) == 0
    assert "--log-format" in capsys.readouterr().out


def test_unknown_choice_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"invalid choice: 'loud'.*see `crabka up --help`"):
        parse_arguments(node_parser("up", "Start."), ["--log-level", "loud"])


def test_node_prints_one_line_and_stops_cleanly_on_a_signal(tmp_path: Path) -> None:
    node = CrabkaProcess(tmp_path)
    with node:
        address = node.bootstrap_servers
    assert node.stdout_path.read_text() == f"bootstrap.servers={address}\n"
    assert "stopping" in node.stderr_text()
    assert (node.data_dir / "meta.properties").exists()
    assert (node.data_dir / ".kafka_cleanshutdown").exists()


def test_new_directory_joins_the_cluster_of_the_old_one(tmp_path: Path) -> None:
    runtime = real_runtime()
    try:
        for dirs in ("a", "a,b"):
            paths = ",".join(str(tmp_path / name) for name in dirs.split(","))
            node_process._format_if_new(runtime, load_config(one_node_properties(paths, "127.0.0.1", 0)))
    finally:
        runtime.threads.close()
    a, b = (parse_properties((tmp_path / name / "meta.properties").read_text()) for name in "ab")
    assert a["cluster.id"] == b["cluster.id"]
    assert a["directory.id"] != b["directory.id"]


def test_a_node_whose_data_is_removed_ends_at_once(tmp_path: Path) -> None:
    with CrabkaProcess(tmp_path, {"log.dirs": f"{tmp_path}/data,{tmp_path}/other"}) as node:
        shutil.rmtree(tmp_path / "other")
        wait_until(lambda: "other is offline" in node.stderr_text(), "the node misses the second dir")
        assert node.is_alive()
        shutil.rmtree(node.data_dir)
        assert node.wait_exit() == 1
    lines = [line for line in node.stderr_text().splitlines() if " INFO " not in line]
    assert len(lines) == 3, lines
    assert "the directory was removed, or its disk unmounted, while in use" in lines[1]
    assert lines[2].startswith("crabka: the node cannot continue: ")


def test_a_directory_in_other_use_is_not_formatted(tmp_path: Path, crabka: RunCommand) -> None:
    (tmp_path / "thesis.tex").touch()
    refused = crabka("up", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert (refused.code, "is no data directory and not empty (thesis.tex)" in refused.err) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_node_that_cannot_go_on_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    async def lose_the_disk() -> int:
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(StorageError("data", "it is gone"))
        node = cast("Any", SimpleNamespace(failed=failed))
        return await node_process._wait_for_end(node, asyncio.Event())

    assert asyncio.run(lose_the_disk()) == 1
    assert capsys.readouterr().err == "crabka: the node cannot continue: log dir data: it is gone\n"


@pytest.mark.parametrize(("open_files", "limit", "warned"), [(24, 1024, False), (25, 1024, True), (10**6, -1, False)])
def test_a_low_limit_of_open_files_is_named(
    caplog: pytest.LogCaptureFixture, open_files: int, limit: int, *, warned: bool
) -> None:
    warn_of_file_limit(open_files, limit)
    assert [f"needs up to {open_files + 1000}" in record.getMessage() for record in caplog.records] == [True] * warned


def test_a_node_returns_large_memory_and_collects_while_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without these a node keeps the memory of refused requests: collection is rare, and so is what glibc returns."""
    seen: list[str] = []

    @contextlib.contextmanager
    def collector() -> Iterator[None]:
        seen.append("collects")
        yield
        seen.append("collects no more")

    class NodeThatIsStopped:
        bootstrap_servers, side_port_address, open_file_count = "127.0.0.1:9092", None, 0

        def __init__(self, _config: object, _runtime: object) -> None:
            self.failed = asyncio.get_running_loop().create_future()

        async def start(self) -> None:
            seen.append("starts")
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)

        async def stop(self) -> None:
            seen.append("stops")

    monkeypatch.setattr("crabka.runtime.return_large_memory", lambda: seen.append("returns memory"))
    monkeypatch.setattr("crabka.runtime.PeriodicCollector", collector)
    monkeypatch.setattr("crabka.runtime.collect_less_often", lambda: None)
    monkeypatch.setattr("crabka.node.node.Node", NodeThatIsStopped)
    monkeypatch.setattr(node_process, "gc", SimpleNamespace(collect=lambda: None, freeze=lambda: None))
    config = load_config(one_node_properties("data", "127.0.0.1", 9092))
    assert node_process.run_node(config, format_new=False) == 0
    assert seen == ["returns memory", "starts", "collects", "collects no more", "stops"]
