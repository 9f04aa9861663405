"""Indexes, aborted transactions and producers from the batches of the tier are those that the log has."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.read.healing.segment_rebuild import build_indexes, replay_segment, same_transactions
from crabka.formats.transaction_index import AbortedTransaction, decode_aborted
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import append, make_batch
from tests.support.tiers.index_storage import aborting
from tests.support.tiers.remote_reading import TierWorld


def test_history_follows_from_the_batches() -> None:
    with TierWorld() as world:
        before = None
        for segment in aborting(world):
            history = replay_segment(world.storage, segment, before)
            stored = b"" if segment.txn_index_empty else world.storage.fetch_index(segment, IndexType.TRANSACTION)
            assert history.aborted == decode_aborted(stored)
            assert history.producer_snapshot == world.storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
            before = segment


def test_a_corrected_batch_counts() -> None:
    with TierWorld() as world:
        first, second, _ = aborting(world)
        right = replay_segment(world.storage, second, first)
        for position in range(0, second.segment_size_bytes, 11):
            flip_object((world.storage, world.fs), second, position)
            assert replay_segment(world.storage, second, first) == right
            flip_object((world.storage, world.fs), second, position)


def test_what_cannot_be_known_is_an_error() -> None:
    with TierWorld() as world:
        first, second, third = aborting(world)
        for before in (None, third):
            with pytest.raises(RemoteBackendError, match="not known"):
                replay_segment(world.storage, second, before)
        for place in (70, 75, 80):
            flip_object((world.storage, world.fs), second, place, 3)
        with pytest.raises(RemoteBackendError, match="damaged"):
            replay_segment(world.storage, second, first)
        flip_object((world.storage, world.fs), first, 10, kind=IndexType.PRODUCER_SNAPSHOT)
        with pytest.raises(RemoteBackendError, match="producer snapshot"):
            replay_segment(world.storage, second, first)


def test_indexes_are_built_around_what_is_lost() -> None:
    with TierWorld() as world:
        for _ in range(20):
            append(world.log, make_batch(2, value_bytes=300))
        segment = world.tier()[0]
        assert build_indexes(world.storage, segment).times.last.timestamp == segment.max_timestamp_ms
        for place in (70, 75, 80):
            flip_object((world.storage, world.fs), segment, place, 3)
        assert build_indexes(world.storage, segment).times.last.timestamp == segment.max_timestamp_ms


def test_only_the_last_stable_offset_may_differ() -> None:
    entry = AbortedTransaction(7, 10, 20, 21)
    assert same_transactions([entry], [entry._replace(last_stable_offset=25)])
    assert not same_transactions([entry], [entry._replace(first_offset=11)])
    assert not same_transactions([entry], [])
