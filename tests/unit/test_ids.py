from __future__ import annotations

import uuid

import pytest

from crabka.ids import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    ZERO_UUID,
    TopicPartition,
    uuid_from_text,
    uuid_to_text,
)


def test_topic_partition_prints_as_its_directory() -> None:
    assert str(TopicPartition("my-topic", 3)) == "my-topic-3"


def test_uuid_text_is_kafkas() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(uuid.UUID(int=(1 << 128) - 1)) == "_____________________w"


def test_directory_states_have_kafkas_reserved_ids() -> None:
    assert uuid_to_text(DIRECTORY_MIGRATING) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(DIRECTORY_UNASSIGNED) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(DIRECTORY_LOST) == "AAAAAAAAAAAAAAAAAAAAAg"


def test_uuid_text_round_trips() -> None:
    value = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    assert uuid_from_text(uuid_to_text(value)) == value


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "A", "é"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_from_text(text)
