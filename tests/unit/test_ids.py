"""Identifiers and Kafka's text form of UUIDs."""

from __future__ import annotations

import uuid

import pytest

from crabka.ids import TopicPartition, uuid_from_text, uuid_to_text


def test_a_topic_partition_prints_as_its_directory() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_uuid_text_is_22_characters_of_url_safe_base64() -> None:
    value = uuid.UUID("ffffffff-fbff-ffff-ffff-fffffffffffe")
    text = uuid_to_text(value)
    assert text == "______v______________g"
    assert len(text) == 22


def test_the_zero_uuid_is_all_letters_a() -> None:
    assert uuid_to_text(uuid.UUID(int=0)) == "A" * 22


def test_uuid_text_is_read_back() -> None:
    value = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
    assert uuid_from_text(uuid_to_text(value)) == value


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 44])
def test_text_of_another_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        uuid_from_text(text)
