from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.formats.object_names import parse_object_name
from crabka.remote.errors import InvalidRangeError
from crabka.remote.layout import (
    index_paths,
    object_path,
    parse_partition_directory,
    partition_directory,
    positions,
)
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.testing import MemoryFileSystem
from tests.support.tiers.segments import golden_segments, golden_tier, write_segment

TOPICS = st.text("abcXYZ0189._-", min_size=1, max_size=60)


@given(topic=TOPICS, partition=st.integers(0, 2**31 - 1), topic_id=st.uuids())
def test_directory_of_a_partition_is_read_back(topic: str, partition: int, topic_id: uuid.UUID) -> None:
    parsed = parse_partition_directory(partition_directory(TopicIdPartition(topic_id, topic, partition)))
    assert (parsed.topic_id, parsed.topic, parsed.partition) == (topic_id, topic, partition)


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_every_file_of_kafkas_tier_has_a_place_in_the_layout(node: str) -> None:
    root = golden_tier(node) / "kafka-tiered-storage"
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    expected = set()
    for metadata in golden_segments(node):
        expected.add(object_path(metadata))
        expected.update(index_paths(metadata))
        if metadata.txn_index_empty:
            expected.remove(object_path(metadata, IndexType.TRANSACTION))
    assert found == expected


def test_names_of_kafkas_tier_say_what_the_metadata_says() -> None:
    metadata = golden_segments("single")[0]
    directory, _, name = object_path(metadata, IndexType.TIMESTAMP).partition("/")
    assert parse_partition_directory(directory) == metadata.topic_id_partition
    assert parse_partition_directory(directory).topic == metadata.topic_id_partition.topic
    parsed = parse_object_name(name)
    assert (parsed.base_offset, parsed.segment_id) == (metadata.start_offset, metadata.segment_id.id)
    assert parsed.suffix == IndexType.TIMESTAMP.value


TEN_BYTES = write_segment(MemoryFileSystem(), "/local", log=b"0123456789").metadata


@given(start=st.integers(0, 10), length=st.integers(1, 20))
def test_both_ends_are_included_and_the_end_is_cut(start: int, length: int) -> None:
    span = positions(TEN_BYTES, start, start + length - 1)
    assert b"0123456789"[span.start : span.stop] == b"0123456789"[start : start + length]
    assert len(span) == len(b"0123456789"[start : start + length])


def test_without_an_end_all_the_rest_is_meant() -> None:
    assert positions(TEN_BYTES, 3, None) == range(3, 10)


def test_a_start_at_the_end_means_nothing() -> None:
    assert not positions(TEN_BYTES, 10, None)
    assert not positions(TEN_BYTES, 10, 12)


@pytest.mark.parametrize(("start", "end"), [(11, None), (-1, None), (11, 12), (5, 4), (10, 9)])
def test_positions_that_cannot_exist_are_refused(start: int, end: int | None) -> None:
    with pytest.raises(InvalidRangeError):
        positions(TEN_BYTES, start, end)
