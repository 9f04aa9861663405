from __future__ import annotations

from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    TopicRecord,
)
from crabka.metadata.replay import MetadataReplay


def _topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(int=5000 + ord(name)))


def _names(replay: MetadataReplay) -> set[str]:
    return set(replay.image.topics.by_name)


def test_nothing_is_visible_until_published() -> None:
    replay = MetadataReplay()
    replay.replay(_topic("a"), 0, 1)
    assert _names(replay) == set()
    published = replay.publish()
    assert published is not None
    assert published.image is replay.image
    assert _names(replay) == {"a"}
    assert replay.publish() is None


def test_a_transaction_appears_whole_at_its_end() -> None:
    replay = MetadataReplay()
    replay.replay(_topic("a"), 0, 1)
    replay.replay(BeginTransactionRecord(name="t"), 1, 1)
    replay.replay(_topic("b"), 2, 1)
    replay.publish()
    assert _names(replay) == {"a"}
    # An image inside a transaction ends before it, so that a snapshot of it can be completed from the log.
    assert replay.image.offset == 0
    assert replay.in_transaction
    replay.replay(EndTransactionRecord(), 3, 1)
    replay.publish()
    assert _names(replay) == {"a", "b"}
    assert replay.image.offset == 3


def test_an_aborted_transaction_leaves_no_trace() -> None:
    replay = MetadataReplay()
    replay.replay(BeginTransactionRecord(name=None), 0, 1)
    replay.replay(_topic("b"), 1, 1)
    replay.skip_to(2, 1)
    replay.replay(AbortTransactionRecord(reason="x"), 3, 1)
    replay.replay(_topic("c"), 4, 1)
    replay.publish()
    assert _names(replay) == {"c"}
    assert not replay.in_transaction


def test_control_records_move_the_offset() -> None:
    replay = MetadataReplay()
    replay.skip_to(4, 2)
    published = replay.publish()
    assert published is not None
    assert (published.image.offset, published.image.epoch) == (4, 2)


def test_every_step_starts_from_the_image_before() -> None:
    replay = MetadataReplay()
    replay.replay(_topic("a"), 0, 1)
    replay.publish()
    replay.replay(NoOpRecord(), 1, 1)
    published = replay.publish()
    assert published is not None
    assert published.delta.topics_created == set()
    assert _names(replay) == {"a"}


def test_nested_and_unopened_transactions_are_refused() -> None:
    replay = MetadataReplay()
    with pytest.raises(CorruptDataError, match="without a begin"):
        replay.replay(EndTransactionRecord(), 0, 1)
    replay.replay(BeginTransactionRecord(name=None), 1, 1)
    with pytest.raises(CorruptDataError, match="inside another"):
        replay.replay(BeginTransactionRecord(name=None), 2, 1)
