"""Damage on disks in memory, and checks that are run to their end."""

from __future__ import annotations

from crabka.log.healing.segment_check import LogCheckFindings, SegmentCheck
from crabka.log.partition.healing import Repairs, write_rebuilt_indexes
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import FileSystem
from crabka.testing import FaultyFileSystem, MemoryFileSystem


def flip(fs: FileSystem, path: str, position: int, mask: int = 1) -> None:
    """Change one byte of a file."""
    file = fs.open(path)
    try:
        file.pwritev([bytes([file.pread(1, position)[0] ^ mask])], position)
    finally:
        file.close()


def rot(fs: MemoryFileSystem | FaultyFileSystem, path: str, position: int, mask: int = 1) -> None:
    """Change one byte of a file, and not the time of its last change."""
    while isinstance(fs, FaultyFileSystem):
        assert isinstance(fs.inner, FaultyFileSystem | MemoryFileSystem)
        fs = fs.inner
    fs.rot(path, position, mask)


def check(log: PartitionLog, base_offset: int) -> LogCheckFindings:
    """Check a segment and return what was found."""
    target = log.healing.begin_check(base_offset)
    assert target is not None
    run = SegmentCheck(target)
    for size in run.steps():
        assert size > 0
    assert run.findings is not None
    return run.findings


def check_and_repair(log: PartitionLog, base_offset: int) -> Repairs:
    """Check a segment and put right what follows from its batches."""
    target = log.healing.begin_check(base_offset)
    assert target is not None
    run = SegmentCheck(target)
    for _ in run.steps():
        pass
    assert run.findings is not None
    if run.findings.indexes is not None:
        write_rebuilt_indexes(target.fs, target.segment, run.findings.indexes)
    return log.healing.take_findings(target, run.findings)
