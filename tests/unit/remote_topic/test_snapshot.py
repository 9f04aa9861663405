"""The snapshot file: what it keeps, and what is not taken for one."""

from __future__ import annotations

import errno
import struct
import uuid
from dataclasses import replace

import crc32c
import pytest

from crabka.errors import CorruptDataError
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote.segments import CustomMetadata, RemotePartitionDeleteState
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.snapshot import (
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    load_snapshot,
    snapshot_path,
    write_snapshot,
)
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.testing.remote_samples import in_state, sample_partition_delete, sample_segment, sample_update
from crabka.vfs import read_file, write_atomic
from tests.support.tier_topic.events import DELETE_STARTED, FINISHED, partition_named

TOPIC_ID = uuid.UUID(int=77)
DIRECTORY = "/data/remote-log-metadata"
FULL = Snapshot(
    topic_id=TOPIC_ID,
    partition_count=50,
    partition=7,
    next_offset=1234,
    leader_epoch=6,
    dump=RlmmCacheDump(
        (
            PartitionDump(
                topic_id_partition=partition_named("t", 1),
                segments=(
                    in_state(sample_segment(2, (100, 199), partition=partition_named("t", 1)), FINISHED),
                    replace(
                        in_state(
                            sample_segment(1, (0, 99), {0: 0, 3: 50}, partition=partition_named("t", 1)), FINISHED
                        ),
                        custom_metadata=CustomMetadata(b"where it is"),
                    ),
                    in_state(sample_segment(4, (0, 9), partition=partition_named("t", 1)), DELETE_STARTED),
                    sample_segment(3, (200, 299), partition=partition_named("t", 1), with_txn_index=True),
                ),
                highest_offsets=((0, 49), (3, 199)),
                partition_delete=sample_partition_delete(
                    RemotePartitionDeleteState.DELETE_PARTITION_MARKED, partition=partition_named("t", 1)
                ),
            ),
            PartitionDump(topic_id_partition=partition_named("größer", 2), highest_offsets=((5, 7),)),
        )
    ),
)
EMPTY = replace(FULL, dump=RlmmCacheDump(), next_offset=0, leader_epoch=-1)


def load(fs: MemoryFileSystem | FaultyFileSystem, **changes: object) -> Snapshot | None:
    wanted = {"topic_id": TOPIC_ID, "partition_count": 50, "partition": 7, **changes}
    return load_snapshot(fs, DIRECTORY, **wanted)  # type: ignore[arg-type] # any of the three


@pytest.mark.parametrize("snapshot", [FULL, EMPTY], ids=["full", "empty"])
def test_all_that_is_known_is_kept_in_its_order(snapshot: Snapshot) -> None:
    fs = MemoryFileSystem()
    write_snapshot(fs, DIRECTORY, snapshot)
    loaded = load(fs)
    assert loaded == snapshot
    assert [d.topic_id_partition.topic for d in loaded.dump.partitions] == [
        d.topic_id_partition.topic for d in snapshot.dump.partitions
    ]


def test_a_deletion_keeps_who_asked_for_it_and_when() -> None:
    deletion = decode_snapshot(encode_snapshot(FULL), "here").dump.partitions[0].partition_delete
    assert deletion is not None
    assert (deletion.event_timestamp_ms, deletion.broker_id) == (1_700_000_002_000, 1)


def test_no_file_is_no_snapshot() -> None:
    assert load(MemoryFileSystem()) is None


@pytest.mark.parametrize(
    "changes", [{"topic_id": uuid.UUID(int=78)}, {"partition_count": 49}], ids=["topic created anew", "other count"]
)
def test_a_snapshot_of_another_topic_is_not_taken(changes: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    write_snapshot(fs, DIRECTORY, FULL)
    assert load(fs, **changes) is None
    assert "belongs to another topic" in caplog.text


def test_a_snapshot_under_the_name_of_another_partition_is_not_taken() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIRECTORY)
    write_atomic(fs, snapshot_path(DIRECTORY, 8), encode_snapshot(FULL))
    assert load(fs, partition=8) is None


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = encode_snapshot(replace(FULL, dump=RlmmCacheDump(FULL.dump.partitions[1:])))
    for position in range(len(data)):
        for bit in (1, 128):
            broken = bytearray(data)
            broken[position] ^= bit
            with pytest.raises(CorruptDataError):
                decode_snapshot(bytes(broken), "here")
        with pytest.raises(CorruptDataError):
            decode_snapshot(data[:position], "here")


def test_a_corrupt_file_counts_as_none(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    write_snapshot(fs, DIRECTORY, FULL)
    data = read_file(fs, snapshot_path(DIRECTORY, 7))
    write_atomic(fs, snapshot_path(DIRECTORY, 7), data[:100] + b"x" + data[101:])
    assert load(fs) is None
    assert "does not fit its checksum" in caplog.text


def test_a_file_that_cannot_be_read_counts_as_none() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    write_snapshot(fs, DIRECTORY, FULL)
    fs.add(FaultRule(operation="pread", error=errno.EIO))
    assert load(fs) is None


def sealed(content: bytes) -> bytes:
    return content + struct.pack(">I", crc32c.crc32c(content))


def test_a_later_version_is_not_guessed_at() -> None:
    data = encode_snapshot(FULL)[:-4]
    with pytest.raises(CorruptDataError, match="version 3 of the format is not known"):
        decode_snapshot(sealed(data[:4] + b"\x00\x03" + data[6:]), "here")


def test_content_that_contradicts_the_format_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="bytes are left"):
        decode_snapshot(sealed(encode_snapshot(FULL)[:-4] + b"x"), "here")
    segment = encode_event(FULL.dump.partitions[0].segments[0])
    content = encode_snapshot(FULL)[:-4]
    update = encode_event(sample_update(FULL.dump.partitions[0].segments[0], FINISHED))
    swapped = content.replace(struct.pack(">i", len(segment)) + segment, struct.pack(">i", len(update)) + update)
    with pytest.raises(CorruptDataError, match="where a segment should"):
        decode_snapshot(sealed(swapped), "here")
    deletion = encode_event(FULL.dump.partitions[0].partition_delete)  # type: ignore[arg-type] # it has one
    swapped = content.replace(struct.pack(">i", len(deletion)) + deletion, struct.pack(">i", len(update)) + update)
    with pytest.raises(CorruptDataError, match="where a deletion should"):
        decode_snapshot(sealed(swapped), "here")


def test_a_crash_leaves_the_old_snapshot_or_the_new_one() -> None:
    for step in range(30):
        memory = MemoryFileSystem()
        write_snapshot(memory, DIRECTORY, EMPTY)
        memory.fsync_dir("/")
        fs = FaultyFileSystem(memory)
        fs.add(FaultRule(skip=step, error=errno.EIO))
        try:
            write_snapshot(fs, DIRECTORY, FULL)
            is_written = True
        except OSError:
            is_written = False
        memory.crash()
        assert load(memory) == FULL if is_written else load(memory) in (EMPTY, FULL)
        if is_written:
            return
    raise AssertionError("the write never succeeded")


def test_a_file_from_before_epochs_were_kept_can_be_read() -> None:
    data = encode_snapshot(FULL)
    # Version 1 ends its header without the epoch.
    old = data[:4] + (1).to_bytes(2, "big") + data[6:38] + data[42:-4]
    read = decode_snapshot(old + struct.pack(">I", crc32c.crc32c(old)), "here")
    assert read == replace(FULL, leader_epoch=-1)
