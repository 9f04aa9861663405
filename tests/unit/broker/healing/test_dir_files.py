"""The small files of a running node: verified, written anew, and a disk that fails meanwhile."""

from __future__ import annotations

import asyncio
import errno
import random
import uuid
from collections.abc import Iterator

import pytest

from crabka.broker.healing.dir_files import DirFiles
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.log_manager import LogManager
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.ports import Runtime
from crabka.testing import FaultRule, FaultyFileSystem, InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from crabka.vfs import read_file
from tests.support.faults.rotting import rot


class FakeQuorum:
    """Says what a test wants of the election."""

    def __init__(self) -> None:
        self.outcome: str | OSError = ""

    async def verify_election_file(self) -> str:
        if isinstance(self.outcome, OSError):
            raise self.outcome
        return self.outcome


class DirBench:
    """A locked log dir, and a metadata dir of its own."""

    def __init__(self) -> None:
        loop = VirtualTimeLoop()
        self.loop = loop
        self.fs = FaultyFileSystem(MemoryFileSystem())
        for path in ("/d1", "/meta"):
            self.fs.makedirs(path)
            write_meta_properties(self.fs, path, MetaProperties("cluster", 1, uuid.UUID(int=3)))
        runtime = Runtime(SimulatedClock(loop), random.Random(3), InlineThreads(loop), self.fs, network=None)  # type: ignore[arg-type]
        self.logs = LogManager(runtime, ["/d1"])
        self.quorum = FakeQuorum()
        self.files = DirFiles(runtime, self.logs, self.quorum, "/meta")  # type: ignore[arg-type]

    def heal(self) -> list[str]:
        return self.loop.run_until_complete(self.files.heal())


@pytest.fixture
def bench() -> Iterator[DirBench]:
    bench = DirBench()
    bench.loop.run_until_complete(bench.logs.load())
    yield bench
    bench.loop.run_until_complete(asyncio.sleep(0))
    bench.loop.close()


def test_what_rotted_is_written_anew_once(bench: DirBench) -> None:
    assert bench.heal() == []
    before = read_file(bench.fs, "/d1/meta.properties")
    rot(bench.fs, "/d1/meta.properties", 20)
    rot(bench.fs, "/meta/meta.properties", 20)
    bench.quorum.outcome = "the election was damaged"
    first, second, third = bench.heal()
    assert first.startswith("/d1/meta.properties: its bytes have changed")
    assert second.startswith("/meta/meta.properties: its bytes have changed")
    assert third == "the election was damaged"
    assert read_file(bench.fs, "/d1/meta.properties") == read_file(bench.fs, "/meta/meta.properties") == before
    bench.quorum.outcome = ""
    assert bench.heal() == []


def test_a_log_dir_that_cannot_be_read_goes_offline(bench: DirBench) -> None:
    bench.fs.add(FaultRule(operation="stat", path="/d1/meta.properties", error=errno.EIO))
    assert bench.heal() == []
    assert bench.logs.offline_dirs == ["/d1"]


def test_a_metadata_dir_that_cannot_be_verified_is_named(bench: DirBench, caplog: pytest.LogCaptureFixture) -> None:
    bench.quorum.outcome = OSError("gone")
    assert bench.heal() == []
    assert "cannot be verified: gone" in caplog.text
