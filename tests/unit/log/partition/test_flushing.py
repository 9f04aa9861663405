from __future__ import annotations

import errno

import pytest

from crabka.log.partition.flushing import FlushPlan
from crabka.log.segment.caches import Handle
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import read_file


def test_a_plan_makes_files_epochs_and_names_durable() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data/orders-0")
    fs.fsync_dir("/")
    active = Handle(fs.open("/data/orders-0/1.log", create=True))
    active.file.pwritev([b"active"], 0)
    fs.open("/data/orders-0/0.log", create=True).pwritev([b"sealed"], 0)
    FlushPlan(
        fs=fs,
        directory="/data/orders-0",
        up_to=9,
        paths=["/data/orders-0/0.log", "/data/orders-0/absent.txnindex"],
        active=active,
        epochs=b"0\n0\n",
        names=True,
    ).run()
    fs.crash()
    assert fs.listdir("/data/orders-0") == ["0.log", "1.log", "leader-epoch-checkpoint"]
    assert read_file(fs, "/data/orders-0/0.log") == b"sealed"
    assert read_file(fs, "/data/orders-0/1.log") == b"active"
    assert read_file(fs, "/data/orders-0/leader-epoch-checkpoint") == b"0\n0\n"


def test_what_is_not_in_the_plan_may_be_lost() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data/orders-0")
    fs.fsync_dir("/")
    fs.fsync_dir("/data")
    fs.open("/data/orders-0/0.log", create=True).pwritev([b"sealed"], 0)
    FlushPlan(fs=fs, directory="/data/orders-0", up_to=9, paths=["/data/orders-0/0.log"]).run()
    fs.crash()
    assert fs.listdir("/data/orders-0") == []


def test_a_plan_runs_once_and_every_caller_gets_its_outcome() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    fs.makedirs("/data/orders-0")
    rule = fs.add(FaultRule(operation="fsync_dir", error=errno.EIO))
    plan = FlushPlan(fs=fs, directory="/data/orders-0", up_to=9, names=True)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            plan.run()
    assert rule.fired_count == 1


def test_a_plan_that_was_abandoned_writes_nothing() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data/orders-0")
    plan = FlushPlan(fs=fs, directory="/data/orders-0", up_to=9, epochs=b"0\n0\n")
    plan.abandon()
    plan.run()
    assert fs.listdir("/data/orders-0") == []


def test_a_log_that_was_deleted_meanwhile_is_no_failure() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data/orders-0")
    plan = FlushPlan(fs=fs, directory="/data/orders-0", up_to=9, paths=[], epochs=b"0\n0\n", names=True)
    fs.rename("/data/orders-0", "/data/orders-0.x-delete")
    plan.run()
    assert fs.listdir("/data") == ["orders-0.x-delete"]
