"""Aborted transactions of remote batches: the marker may be segments away, in the tier or on the disk."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.read.aborted import aborted_transactions
from crabka.broker.tiering.read.remote_log import remote_log_of
from crabka.formats.transaction_index import AbortedTransaction
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from tests.support.storage.small import NOW_MS, append, make_batch
from tests.support.tiers.aborted import Transactions
from tests.support.tiers.remote_reading import TierWorld


def found(world: TierWorld, start: int, upper: int) -> list[tuple[int, int]]:
    async def read(segment: RemoteLogSegmentMetadata) -> list[AbortedTransaction]:
        loaded = await world.indexes.get(segment, IndexType.TRANSACTION)
        assert isinstance(loaded.content, list)
        return loaded.content

    remote = remote_log_of(world.partition, world.rlmm)
    return world.run(aborted_transactions(remote, world.log, (start, upper), read))


def test_a_marker_in_a_later_remote_segment_is_found() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        first = txn.write(7)
        txn.roll()
        append(world.log, make_batch(5))
        txn.roll()
        txn.abort(7)
        txn.roll()
        append(world.log, make_batch(1))
        world.tier()
        world.drop_local()
        assert world.log.local_log_start_offset == 7
        assert found(world, 0, 1) == [(7, first)]


def test_a_marker_that_is_still_on_the_disk_is_found() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        txn.write(7)
        txn.write(8)
        txn.roll()
        txn.abort(8)
        txn.abort(7)
        txn.roll()
        txn.write(9)
        txn.abort(9)
        world.tier(limit=1)
        world.drop_local()
        assert found(world, 0, 2) == [(8, 1), (7, 0)]


def test_what_is_in_the_tier_and_on_the_disk_is_reported_once() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        txn.write(7)
        txn.roll()
        append(world.log, make_batch(5))
        txn.abort(7)
        txn.roll()
        append(world.log, make_batch(1))
        world.tier()
        assert found(world, 0, 1) == [(7, 0)]
        assert world.indexes.disk_bytes == 0  # the log has it all, so nothing is fetched
        world.log.retention.drop_oldest_tiered(NOW_MS + 10**9)
        assert found(world, 0, 1) == [(7, 0)]


def test_an_entry_that_says_so_ends_the_search() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        txn.write(7)
        txn.abort(7)
        txn.roll()
        for producer_id in (8, 9):
            txn.write(producer_id)
            txn.abort(producer_id)
            txn.roll()
        append(world.log, make_batch(1))
        world.tier()
        world.drop_local()
        assert found(world, 0, 2) == [(7, 0)]
        assert len(world.fs.listdir("/data/remote-log-index-cache")) == 1


def test_an_index_that_cannot_be_read_is_not_left_out() -> None:
    with TierWorld() as world:
        txn = Transactions(world)
        txn.write(7)
        txn.abort(7)
        txn.roll()
        append(world.log, make_batch(1))
        world.tier()
        world.drop_local()

        async def read(_segment: RemoteLogSegmentMetadata) -> list[AbortedTransaction]:
            raise RemoteBackendError("away")

        with pytest.raises(RemoteBackendError):
            world.run(aborted_transactions(remote_log_of(world.partition, world.rlmm), world.log, (0, 1), read))
