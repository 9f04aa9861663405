from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.formats.object_names import (
    SUFFIXES,
    DirectoryName,
    ObjectName,
    parse_directory_name,
    parse_object_name,
)


@given(topic=st.text("abcXYZ0189._-", min_size=1), partition=st.integers(0, 2**31 - 1), topic_id=st.uuids())
def test_the_name_of_a_directory_is_read_back(topic: str, partition: int, topic_id: uuid.UUID) -> None:
    name = DirectoryName(topic, partition, topic_id)
    assert parse_directory_name(str(name)) == name


@given(offset=st.integers(0, 2**63 - 1), segment_id=st.uuids(), suffix=st.sampled_from(SUFFIXES))
def test_the_name_of_an_object_is_read_back(offset: int, segment_id: uuid.UUID, suffix: str) -> None:
    name = ObjectName(offset, segment_id, suffix)
    assert parse_object_name(str(name)) == name


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
        parse_directory_name(name)


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
