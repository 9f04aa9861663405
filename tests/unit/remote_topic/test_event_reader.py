"""The reader of all forms: tagged fields everywhere, hostile lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.remote_topic.event_reader import MetadataEventError, read_event
from crabka.remote_topic.serde import encode_event
from crabka.testing.remote_samples import sample_segment
from tests.support.tier_topic.events import partition_named

SEGMENT = sample_segment(1, (5, 9), partition=partition_named("t", 2), with_txn_index=True)
VALUE = encode_event(SEGMENT)
TAG = b"\x01\x03\x02hi"
PARTITION_TAGS_AT = 3 + 2 + 16 + 4
SEGMENT_ID_TAGS_AT = PARTITION_TAGS_AT + 1 + 16
EPOCH_TAGS_AT = SEGMENT_ID_TAGS_AT + 1 + 8 + 8 + 4 + 8 + 8 + 1 + 4 + 8


@pytest.mark.parametrize("position", [PARTITION_TAGS_AT, SEGMENT_ID_TAGS_AT, EPOCH_TAGS_AT, len(VALUE) - 1])
def test_tagged_fields_are_skipped_wherever_a_message_ends(position: int) -> None:
    assert VALUE[position] == 0
    assert read_event(VALUE[:position] + TAG + VALUE[position + 1 :]) == SEGMENT


@pytest.mark.parametrize("flag", [False, True])
def test_the_tagged_field_about_transactions_is_read_wherever_it_stands(flag: bool) -> None:
    tags = b"\x02\x00\x01" + bytes((flag,)) + b"\x03\x02hi"
    assert read_event(VALUE[:-1] + tags) == replace(SEGMENT, txn_index_empty=flag)


def test_a_long_varint_means_the_same() -> None:
    assert read_event(b"\x81\x80\x00\x80\x00\x80\x00" + VALUE[3:]) == SEGMENT


def test_a_count_of_epochs_that_cannot_be_is_refused_at_once() -> None:
    count_at = EPOCH_TAGS_AT - 13
    assert VALUE[count_at] == 2
    with pytest.raises(MetadataEventError, match="cut short"):
        read_event(VALUE[:count_at] + b"\xff\xff\xff\xff\x0f" + VALUE[count_at + 1 :])


def test_a_topic_without_a_name_is_refused() -> None:
    with pytest.raises(MetadataEventError, match="lacks a name"):
        read_event(VALUE[:3] + b"\x00" + VALUE[5:])


def test_a_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(MetadataEventError, match="malformed"):
        read_event(VALUE[:4] + b"\xff" + VALUE[5:])


def test_an_event_without_epochs_is_refused() -> None:
    count_at = EPOCH_TAGS_AT - 13
    for count in (b"\x00", b"\x01"):
        with pytest.raises(MetadataEventError, match="no leader epoch"):
            read_event(VALUE[:count_at] + count + VALUE[EPOCH_TAGS_AT + 1 :])
