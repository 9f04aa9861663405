"""Only new directories are formatted without a question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.quorum.formatting import format_storage
from crabka.quorum.new_directory import require_new
from crabka.runtime import real_runtime
from crabka.testing import MemoryFileSystem


def directory_with(*names: str) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    for name in names:
        if name.endswith("/"):
            fs.makedirs(f"/data/{name[:-1]}")
        else:
            fs.open(f"/data/{name}", create=True).close()
    return fs


@pytest.mark.parametrize("names", [(), ("lost+found/", ".lock"), ("bootstrap.checkpoint", "meta.properties.tmp")])
def test_an_empty_directory_is_new(names: tuple[str, ...]) -> None:
    require_new(directory_with(*names), "/data")
    require_new(MemoryFileSystem(), "/not/there")


def test_files_of_others_are_named() -> None:
    fs = directory_with("a.txt", "b.txt", "c.txt", "d.txt")
    with pytest.raises(ConfigError, match=r"^/data is no data directory and not empty \(a.txt, b.txt, c.txt, …\)"):
        require_new(fs, "/data")


def test_partitions_without_an_identity_are_named() -> None:
    with pytest.raises(ConfigError, match=r"^/data has partitions \(orders-0\) but no meta.properties"):
        require_new(directory_with("orders-0/", "recovery-point-offset-checkpoint"), "/data")


def test_a_file_is_no_directory() -> None:
    with pytest.raises(ConfigError, match="is a file"):
        require_new(directory_with("file"), "/data/file")


def test_a_formatting_that_was_interrupted_goes_on() -> None:
    fs = MemoryFileSystem()
    config, _ = ServerConfig.from_properties(one_node_properties("/data", "127.0.0.1", 0))
    runtime = real_runtime()
    try:
        format_storage(replace(runtime, fs=fs), config, None)
    finally:
        runtime.threads.close()
    fs.unlink("/data/meta.properties")
    require_new(fs, "/data")
    fs.open("/data/__cluster_metadata-0/00000000000000000000.log", create=True).close()
    with pytest.raises(ConfigError, match="__cluster_metadata-0"):
        require_new(fs, "/data")
