"""The history that a follower takes from the tier: epochs and producers up to the end of a segment."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.bootstrap.follower_bootstrap import FollowerStart, follower_start
from crabka.broker.tiering.read.deadline import Deadline
from crabka.broker.tiering.read.remote_log import remote_log_of
from crabka.log.producers.snapshots import decode_snapshot
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import IndexType
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import NOW_MS, ProducerFields, append, make_batch
from tests.support.tiers.remote_reading import TierWorld, directory_tier


def fill(world: TierWorld) -> None:
    """Put offsets 0 to 5 into one segment, in epochs 0 and 2, with a producer in the second half."""
    append(world.log, make_batch(3))
    append(world.log, make_batch(3, producer=ProducerFields(77)), leader_epoch=2)
    world.log.roll(NOW_MS)
    append(world.log, make_batch(1), leader_epoch=4)
    world.tier()


def start(world: TierWorld, epoch: int, offset: int) -> FollowerStart:
    async def main() -> FollowerStart:
        remote = remote_log_of(world.partition, world.rlmm)
        return await follower_start(world.tools, remote, (epoch, offset), Deadline(1000))

    return world.run(main())


def test_a_follower_begins_behind_the_segment_with_its_epochs_and_producers() -> None:
    with TierWorld() as world:
        fill(world)
        found = start(world, 2, 5)
        assert (found.start_offset, found.epochs) == (6, [(0, 0), (2, 3)])
        (entry,) = decode_snapshot(found.producer_snapshot)
        assert (entry.producer_id, entry.batches[-1].last_offset) == (77, 5)


def test_an_offset_of_another_history_is_not_known() -> None:
    with TierWorld() as world:
        fill(world)
        with pytest.raises(RemoteBackendError, match="no segment"):
            start(world, 1, 5)


@pytest.mark.parametrize("kind", [IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT])
def test_any_wrong_byte_of_the_state_is_noticed_and_the_state_built_anew(
    kind: IndexType, caplog: pytest.LogCaptureFixture
) -> None:
    with TierWorld(storage=directory_tier) as world:
        fill(world)
        append(world.log, make_batch(2, producer=ProducerFields(77, 0, 3)), leader_epoch=5)
        world.log.roll(NOW_MS)
        append(world.log, make_batch(1), leader_epoch=5)
        world.tier()
        _, segment = world.rlmm.list_remote_log_segments(world.topic_id_partition)
        right = start(world, 5, segment.end_offset)
        assert right.epochs == [(0, 0), (2, 3), (4, 6), (5, 7)]
        assert not caplog.records
        for position in range(len(world.storage.fetch_index(segment, kind))):
            flip_object((world.storage, world.fs), segment, position, 1 << position % 3, kind=kind)
            found = start(world, 5, segment.end_offset)
            assert found.epochs == right.epochs, position
            assert found.producer_snapshot == right.producer_snapshot, position
            flip_object((world.storage, world.fs), segment, position, 1 << position % 3, kind=kind)
    assert "in the remote tier is damaged, and a replica begins without it" in caplog.text


def test_state_that_cannot_be_built_is_an_error() -> None:
    with TierWorld(storage=directory_tier) as world:
        fill(world)
        (segment,) = world.rlmm.list_remote_log_segments(world.topic_id_partition)
        flip_object((world.storage, world.fs), segment, 20, kind=IndexType.PRODUCER_SNAPSHOT)
        for position in (70, 75, 80):
            flip_object((world.storage, world.fs), segment, position, 3)
        with pytest.raises(RemoteBackendError, match="state of producers is damaged"):
            start(world, 2, 5)


def test_missing_state_is_reported() -> None:
    with TierWorld() as world:
        fill(world)
        (segment,) = world.rlmm.list_remote_log_segments(world.topic_id_partition)
        world.storage.delete_log_segment_data(segment)
        with pytest.raises(SegmentNotFoundError):
            start(world, 2, 5)
