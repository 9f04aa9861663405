"""Cleaned files on their way into place."""

from __future__ import annotations

import pytest

from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.segment.indexes import SegmentIndexes
from crabka.log.segment.swap import SEGMENT_SUFFIXES, CleanedFiles, complete_swaps
from crabka.testing import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.storage.small import make_batch

DIRECTORY = "/log"
STEM = f"{DIRECTORY}/{5:020d}"
NEXT = f"{DIRECTORY}/{7:020d}"
FAR = f"{DIRECTORY}/{9:020d}"
CLEANED = make_batch(3, base_offset=5)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs(DIRECTORY)
    fs.fsync_dir("/")
    for stem in (STEM, NEXT, FAR):
        for suffix in SEGMENT_SUFFIXES:
            fs.open(stem + suffix, create=True).pwritev([b"old"], 0)
    return fs


def written(fs: MemoryFileSystem, aborted: list[AbortedTransaction] | None = None) -> CleanedFiles:
    files = CleanedFiles(fs, STEM)
    files.create()
    files.append([CLEANED], 0)
    files.finish(SegmentIndexes.empty(5), aborted or [])
    files.close()
    return files


def names(fs: MemoryFileSystem) -> set[str]:
    return {name.lstrip("0") for name in fs.listdir(DIRECTORY)}


OLD = {f"{base}{suffix}" for base in (5, 7, 9) for suffix in SEGMENT_SUFFIXES}


def test_files_are_durable_before_they_are_committed(fs: MemoryFileSystem) -> None:
    written(fs)
    fs.crash()
    assert read_file(fs, f"{STEM}.log.cleaned") == CLEANED


def test_a_committed_swap_is_installed(fs: MemoryFileSystem) -> None:
    files = written(fs)
    files.commit()
    assert {"5.log.swap", "5.index.swap"} <= names(fs)
    files.install()
    assert read_file(fs, f"{STEM}.log") == CLEANED
    assert read_file(fs, f"{STEM}.index") == b""
    assert names(fs) == OLD - {"5.txnindex"}


def test_aborted_transactions_come_along(fs: MemoryFileSystem) -> None:
    files = written(fs, [AbortedTransaction(1, 5, 6, 7)])
    files.commit()
    files.install()
    assert len(read_file(fs, f"{STEM}.txnindex")) == 34


def test_discarded_files_are_gone(fs: MemoryFileSystem) -> None:
    files = written(fs)
    files.discard()
    files.discard()
    assert names(fs) == OLD


def test_opening_undoes_what_was_not_committed(fs: MemoryFileSystem) -> None:
    written(fs)
    fs.rename(f"{STEM}.index.cleaned", f"{STEM}.index.swap")
    complete_swaps(fs, DIRECTORY)
    assert names(fs) == OLD
    assert read_file(fs, f"{STEM}.index") == b"old"


def test_opening_completes_what_was_committed(fs: MemoryFileSystem) -> None:
    written(fs)
    # The name of the log is what counts.
    fs.rename(f"{STEM}.log.cleaned", f"{STEM}.log.swap")
    complete_swaps(fs, DIRECTORY)
    assert read_file(fs, f"{STEM}.log") == CLEANED
    assert read_file(fs, f"{STEM}.timeindex") == b""
    assert names(fs) == {name for name in OLD if not name.startswith("7")} - {"5.txnindex"}


def test_opening_completes_the_indexes_of_a_log_in_place(fs: MemoryFileSystem) -> None:
    files = written(fs)
    files.commit()
    fs.rename(f"{STEM}.log.swap", f"{STEM}.log")
    complete_swaps(fs, DIRECTORY)
    assert read_file(fs, f"{STEM}.index") == b""
    assert names(fs) == OLD - {"5.txnindex"}


def test_opening_removes_index_files_of_a_copy_that_had_hardly_begun(fs: MemoryFileSystem) -> None:
    written(fs)
    fs.unlink(f"{STEM}.log.cleaned")
    complete_swaps(fs, DIRECTORY)
    assert names(fs) == OLD
    assert read_file(fs, f"{STEM}.index") == b"old"
