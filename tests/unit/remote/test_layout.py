from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.remote.layout import (
    ObjectName,
    index_paths,
    object_path,
    parse_object_name,
    parse_partition_directory,
    partition_directory,
)
from crabka.remote.segments import IndexType, TopicIdPartition
from tests.support.tier_segments import golden_segments, golden_tier

TOPICS = st.text("abcXYZ0189._-", min_size=1, max_size=60)
IDS = st.uuids()


@given(topic=TOPICS, partition=st.integers(0, 2**31 - 1), topic_id=IDS)
def test_directory_of_a_partition_is_read_back(topic: str, partition: int, topic_id: uuid.UUID) -> None:
    parsed = parse_partition_directory(partition_directory(TopicIdPartition(topic_id, topic, partition)))
    assert (parsed.topic_id, parsed.topic, parsed.partition) == (topic_id, topic, partition)


@given(offset=st.integers(0, 2**63 - 1), segment_id=IDS, kind=st.sampled_from([None, *IndexType]))
def test_name_of_an_object_is_read_back(offset: int, segment_id: uuid.UUID, kind: IndexType | None) -> None:
    name = ObjectName(offset, segment_id, kind)
    assert parse_object_name(str(name)) == name


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
    assert parsed.index_type is IndexType.TIMESTAMP


@pytest.mark.parametrize(
    "name",
    [
        "",
        "topic",
        "topic-0",
        "topic-0-short",
        "topic-00-hDLtw-jrR3KfMbDKvkG2DQ",
        "-0-hDLtw-jrR3KfMbDKvkG2DQ",
        "to pic-0-hDLtw-jrR3KfMbDKvkG2DQ",
        "topic-0-hDLtw-jrR3KfMbDKvkG2DR",  # another spelling of the same sixteen bytes
        "topic-0-hDLtw-jrR3KfMbDKvkG2DQ/x",
    ],
)
def test_other_directories_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_partition_directory(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "00000000000000000000.log",
        "0-hDLtw-jrR3KfMbDKvkG2DQ.log",
        "00000000000000000000-hDLtw-jrR3KfMbDKvkG2DQ",
        "00000000000000000000-hDLtw-jrR3KfMbDKvkG2DQ.log.tmp",
        "00000000000000000000-hDLtw-jrR3KfMbDKvkG2DQ.swap",
        "00000000000000000000-hDLtw-jrR3KfMbDKvkG2DR.log",
    ],
)
def test_other_files_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_object_name(name)
