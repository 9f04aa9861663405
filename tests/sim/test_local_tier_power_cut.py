"""LocalTieredStorage and power cuts at every step of every operation: a segment is whole or not there at all."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator

import pytest

from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import IndexType
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import FaultRule
from tests.support.scale import scaled
from tests.support.tiers.segments import LocalSegment, stored_contents, write_segment

Operation = Callable[[LocalTieredStorage, LocalSegment], None]


def copy(storage: LocalTieredStorage, segment: LocalSegment) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)


def delete(storage: LocalTieredStorage, segment: LocalSegment) -> None:
    storage.delete_log_segment_data(segment.metadata)


def tier_of(fs: MemoryFileSystem | FaultyFileSystem) -> LocalTieredStorage:
    storage = LocalTieredStorage(fs)
    storage.configure({"dir": "/tier"})
    return storage


def disk_with(segments: int, *, stored: bool) -> tuple[MemoryFileSystem, list[LocalSegment]]:
    fs = MemoryFileSystem()
    written = [
        write_segment(fs, "/local", number, log=b"batch %d " % number * 2000) for number in range(1, segments + 1)
    ]
    storage = tier_of(fs)
    copy(storage, written[0])
    for segment in written[1:] if stored else []:
        copy(storage, segment)
    fs.fsync_dir("/")
    return fs, written


def cut_at_every_step(
    before: MemoryFileSystem, operation: Operation, segment: LocalSegment
) -> Iterator[MemoryFileSystem]:
    """Yield the disk as it is when the power goes before the first step, the second and so on, and after the last."""
    for step in range(1000):
        disk = before.clone()
        fs = FaultyFileSystem(disk)
        storage = tier_of(fs)
        # A dead machine does not clean up either: everything fails from here on.
        fs.add(FaultRule(path="/tier*", skip=step, error=errno.EIO))
        try:
            operation(storage, segment)
        except RemoteBackendError:
            yield disk
            continue
        yield disk
        return
    pytest.fail("the operation never ends")


def is_stored(storage: LocalTieredStorage, segment: LocalSegment) -> bool:
    """Return whether a segment is there; it fails the test if only part of it is."""
    try:
        found = stored_contents(storage, segment)
    except SegmentNotFoundError:
        for kind in IndexType:
            with pytest.raises(SegmentNotFoundError):
                storage.fetch_index(segment.metadata, kind)
        with pytest.raises(SegmentNotFoundError):
            storage.fetch_log_segment(segment.metadata, 0)
        return False
    assert found == segment.contents
    return True


def outcomes(operation: Operation, *, stored: bool, rng: random.Random | None) -> list[bool]:
    before, (bystander, segment) = disk_with(2, stored=stored)
    seen = []
    for disk in cut_at_every_step(before, operation, segment):
        disk.crash(rng)
        storage = tier_of(disk)
        assert is_stored(storage, bystander)
        seen.append(is_stored(storage, segment))
        # Whatever is left goes with a deletion, and a new copy works.
        delete(storage, segment)
        assert len(list(storage.list_objects())) == len(bystander.contents)
        write_segment(disk, "/local", 2, log=segment.log)
        copy(storage, segment)
        assert is_stored(storage, segment)
    return seen


def test_a_power_cut_during_a_copy_leaves_all_or_nothing_and_a_finished_copy_stays() -> None:
    seen = outcomes(copy, stored=False, rng=None)
    assert len(seen) > 20
    assert not any(seen[:-2])
    assert seen[-1]


def test_a_power_cut_during_a_deletion_leaves_all_or_nothing() -> None:
    seen = outcomes(delete, stored=True, rng=None)
    assert seen[0]
    assert not seen[-1]
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("operation", [copy, delete])
def test_what_the_disk_wrote_on_its_own_before_the_cut_changes_nothing(
    operation: Operation, rng: random.Random
) -> None:
    for _ in range(scaled(5, 200)):
        seen = outcomes(operation, stored=operation is delete, rng=rng)
        assert seen[-1] is (operation is copy)
