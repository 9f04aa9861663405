from __future__ import annotations

import errno
import threading
from collections.abc import Sequence

import pytest

from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.open_segments import SYNCS_AT_CEILING, OpenSegments
from crabka.ports import File
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs.syncing import sync_each
from tests.support.storage.small import LOG_DIR, NOW_MS, append, make_batch, read_headers


def make_logs(count: int, capacity: int, fs: FaultyFileSystem | None = None) -> tuple[OpenSegments, list[PartitionLog]]:
    fs = fs or FaultyFileSystem(MemoryFileSystem())
    fs.makedirs(LOG_DIR)
    segments = OpenSegments(capacity)
    context = SegmentContext(fs, open_segments=segments)
    names = [TopicPartition("orders", index) for index in range(count)]
    options = OpenOptions(clean=True, now_ms=NOW_MS)
    return segments, [open_log(context, f"{LOG_DIR}/{name}", name, TopicConfig(), options) for name in names]


def flushed_append(log: PartitionLog) -> None:
    append(log, make_batch(2))
    log.flush()
    log.durability.settle_descriptor()


def test_a_new_log_holds_no_descriptor_until_it_is_written() -> None:
    segments, (log,) = make_logs(1, capacity=4)
    assert len(segments) == 0
    append(log, make_batch(2))
    assert len(segments) == 1
    assert len(read_headers(log)) == 1


def test_a_log_that_rests_is_read_and_written_as_before() -> None:
    segments, (log,) = make_logs(1, capacity=4)
    flushed_append(log)
    assert len(segments) == 0
    assert [header.base_offset for header in read_headers(log)] == [0]
    assert len(segments) == 1
    append(log, make_batch(1))
    log.roll(NOW_MS)
    append(log, make_batch(1))
    assert [header.base_offset for header in read_headers(log)] == [0, 2, 3]
    log.truncation.truncate_to(2, now_ms=NOW_MS)
    assert [header.base_offset for header in read_headers(log)] == [0]


def test_idle_segments_make_room_for_those_that_are_used() -> None:
    segments, logs = make_logs(4, capacity=2)
    for log in logs[:2]:
        append(log, make_batch(1))
        log.flush()
        log.state.active.note_durable()
    # The first is used since, the second is not.
    segments.take_idle(0, looks=2)
    append(logs[0], make_batch(1))
    logs[0].flush()
    logs[0].state.active.note_durable()
    append(logs[2], make_batch(1))
    assert [log.state.active.has_descriptor for log in logs] == [True, False, True, False]


def test_bytes_that_are_not_durable_keep_their_descriptor() -> None:
    crowded: list[int] = []
    segments, logs = make_logs(8, capacity=4)
    segments.on_crowded = lambda: crowded.append(len(segments))
    for log in logs[:5]:
        append(log, make_batch(1))
    assert all(log.state.active.has_descriptor for log in logs[:5])
    assert crowded == [4]


def test_at_the_ceiling_the_oldest_are_synced_at_once() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    syncs: list[str] = []
    fs.add(FaultRule(operation="fsync", path="*.log", before=lambda _operation, path: syncs.append(path)))
    segments, logs = make_logs(40, capacity=8, fs=fs)
    for log in logs:
        append(log, make_batch(1))
        assert len(segments) <= segments.ceiling
    assert syncs
    assert all(len(read_headers(log)) == 1 for log in logs)


def test_at_the_ceiling_the_loop_waits_for_many_at_once() -> None:
    segments, logs = make_logs(400, capacity=200)
    together: list[int] = []

    def sync(files: Sequence[File]) -> list[OSError | None]:
        together.append(len(files))
        return sync_each(files)

    segments._sync_files = sync
    for log in logs:
        append(log, make_batch(1))
    assert together == [SYNCS_AT_CEILING] * len(together)
    assert 0 < len(together) <= 400 // SYNCS_AT_CEILING
    assert len(segments) <= segments.ceiling


def test_a_segment_that_cannot_be_synced_keeps_its_descriptor() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    segments, logs = make_logs(5, capacity=4, fs=fs)
    for log in logs[:4]:
        append(log, make_batch(1))
    fs.add(FaultRule(operation="fsync", path="*orders-0/*.log", error=errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        segments._sync_now([log.state.active for log in logs[:4]])
    assert [log.state.active.has_descriptor for log in logs[:4]] == [True, False, False, False]
    assert not logs[0].state.active.is_durable


def test_another_thread_takes_no_descriptor_away() -> None:
    segments, logs = make_logs(3, capacity=1)

    def use() -> None:
        for log in logs:
            append(log, make_batch(1))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(segments) == 3
    segments.make_room()
    assert len(segments) <= segments.ceiling


def test_closed_and_deleted_segments_are_forgotten() -> None:
    segments, logs = make_logs(2, capacity=4)
    for log in logs:
        append(log, make_batch(1))
    logs[0].close(clean=True)
    logs[1].close(clean=False)
    assert len(segments) == 0
