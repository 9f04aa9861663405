"""A fetcher copies what its leader has, cuts what the leader does not have, and gets over whatever fails."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.partition.partition_log import PartitionLog
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.nodes.follower import FOLLOWER, TOPIC, FollowerWorld, ToyLeader, follow
from tests.support.nodes.tier_leader import tier_led
from tests.support.quorum.images import topic_id_of
from tests.support.storage.small import NOW_MS, ProducerFields, append, make_batch, read_batches
from tests.support.tiers.remote_reading import HeldThreads, TierWorld


def fill(log: PartitionLog, *epochs: int) -> None:
    """Append a batch of three records in each epoch."""
    for epoch in epochs:
        append(log, make_batch(3), leader_epoch=epoch)


def copy(source: PartitionLog, target: PartitionLog, count: int) -> None:
    """Give a log the first batches of another."""
    for _, batch in read_batches(source)[:count]:
        target.copying.append_as_follower(batch)


async def leader_with(world: FollowerWorld, *epochs: int) -> tuple[ToyLeader, PartitionLog]:
    """Start broker 1 with a log of batches in these epochs."""
    leader = await world.add_leader()
    log = leader.lead()
    fill(log, *epochs)
    return leader, log


def reported(leader: ToyLeader) -> list[dict[int, int]]:
    """Return the offsets that each fetch named, by partition."""
    return [
        {each.partition: each.fetch_offset for topic in request.body.topics for each in topic.partitions}
        for request in leader.fetches
    ]


@run_with(follow)
async def test_a_follower_gets_all_batches_as_they_are(world: FollowerWorld, /) -> None:
    _, log = await leader_with(world, 3, 3, 5)
    world.place({})
    await world.settle()
    own = world.partition().log
    assert read_batches(own) == read_batches(log)
    assert own.leader_epochs.entries == [(3, 0), (5, 6)]
    assert own.high_watermark == 9
    fill(log, 5)
    await world.settle()
    assert read_batches(own) == read_batches(log)
    assert (own.log_end_offset, own.high_watermark) == (12, 12)


def test_a_fetch_names_its_replica_and_its_limits() -> None:
    async def test(world: FollowerWorld) -> None:
        leader, _ = await leader_with(world, 3)
        world.place({})
        await world.settle()
        body: Any = leader.fetches[0].body
        assert (body.replica_state.replica_id, body.replica_state.replica_epoch) == (FOLLOWER, 77)
        assert (body.min_bytes, body.max_bytes) == (2, 10_000)
        assert body.max_wait.total_seconds() == 0.3
        (topic,) = body.topics
        assert topic.topic_id == topic_id_of(TOPIC)
        (wanted,) = topic.partitions
        assert (wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch) == (5, 0, -1)
        assert (wanted.log_start_offset, wanted.partition_max_bytes) == (0, 3000)
        assert leader.fetches[0].client_id == "broker-2-fetcher-0"
        assert leader.fetches[0].version == 18

    settings = {
        "replica.fetch.min.bytes": "2",
        "replica.fetch.response.max.bytes": "10000",
        "replica.fetch.wait.max.ms": "300",
        "replica.fetch.max.bytes": "3000",
    }
    follow(test, settings=settings)


@pytest.mark.parametrize("version", [13, 14, 15, 18])
@run_with(follow)
async def test_older_leaders_receive_the_replica_id_in_their_version(world: FollowerWorld, /, version: int) -> None:
    leader, log = await leader_with(world, 3)
    leader.broker.versions[ApiKey.FETCH] = (4, version)
    world.place({})
    await world.settle()
    body = leader.fetches[0].body
    assert (body.replica_id if version < 15 else body.replica_state.replica_id) == FOLLOWER
    assert read_batches(world.partition().log) == read_batches(log)


@run_with(follow)
async def test_a_leader_without_topic_ids_is_not_followed(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)
    leader.broker.versions[ApiKey.FETCH] = (4, 12)
    world.place({})
    await world.settle()
    assert leader.fetches == []
    leader.broker.versions[ApiKey.FETCH] = (4, 13)
    await world.settle()
    assert world.partition().log.log_end_offset == 3


@run_with(follow)
async def test_in_a_session_only_what_changed_is_reported(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3)
    leader.lead(1)
    world.place({}, {})
    await world.settle()
    fill(log, 3)
    await world.settle()
    assert reported(leader)[:2] == [{0: 0, 1: 0}, {0: 3}]
    assert reported(leader).count({0: 6}) == 1
    assert set(map(str, reported(leader)[2:])) == {"{}", "{0: 6}"}


@run_with(follow)
async def test_a_session_that_the_leader_forgot_begins_anew(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3)
    world.place({})
    await world.settle()
    leader.sessions._sessions.clear()
    fill(log, 3)
    await world.settle()
    assert world.partition().log.log_end_offset == 6
    assert reported(leader).count({0: 3}) == 2
    assert leader.broker.connection_count == 1


@run_with(follow)
async def test_without_a_session_everything_is_reported_each_time(world: FollowerWorld, /) -> None:
    leader = await world.add_leader(max_sessions=0)
    fill(leader.lead(), 3)
    leader.lead(1)
    world.place({}, {})
    await world.settle()
    assert reported(leader)[0] == {0: 0, 1: 0}
    assert all(each == {0: 3, 1: 0} for each in reported(leader)[1:])
    assert world.partition().log.log_end_offset == 3


@run_with(follow)
async def test_a_partition_that_is_unfollowed_is_forgotten(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)
    log = leader.lead(1)
    world.place({}, {})
    await world.settle()
    world.fetchers.unfollow(world.partition(1))
    await world.settle()
    fill(log, 3)
    await world.settle()
    assert world.partition(1).log.log_end_offset == 0
    forgotten = [each for request in leader.fetches for each in request.body.forgotten_topics_data]
    assert [(each.topic_id, list(each.partitions)) for each in forgotten] == [(topic_id_of(TOPIC), [1])]


@run_with(follow)
async def test_a_log_is_cut_where_the_epochs_part_and_not_at_the_high_watermark(world: FollowerWorld, /) -> None:
    """What was acknowledged lies above a follower's high watermark as well: cutting there would lose it (KIP-101)."""

    leader, log = await leader_with(world, 3, 3, 5)
    world.place({"leader": -1, "leader_epoch": 3})
    own = world.partition().log
    copy(log, own, 2)
    world.learn_leader(FOLLOWER, 4)
    fill(own, 4, 4)
    own.set_high_watermark(3)
    fetched_before = len(leader.fetches)
    world.learn_leader(1, 5)
    await world.settle()
    assert read_batches(own) == read_batches(log)
    assert own.leader_epochs.entries == [(3, 0), (5, 6)]
    offsets = [each[0] for each in reported(leader)[fetched_before:] if each]
    # From the end of the own log, then from where the common part ends: never from below.
    assert offsets == [12, 6, 9]


@run_with(follow)
async def test_the_recovery_point_on_disk_is_lowered_before_a_cut_log_grows(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3, 5)
    world.place({"leader": -1, "leader_epoch": 3}, segment_bytes="1048576")
    own = world.partition().log
    copy(log, own, 1)
    world.learn_leader(FOLLOWER, 4)
    fill(own, 4, 4)
    own.roll(0)
    fill(own, 4)
    own.flush()
    await world.logs.save_checkpoints()
    path = "/d1/recovery-point-offset-checkpoint"
    assert read_offset_checkpoint(world.fs, path)[TopicPartition(TOPIC, 0)] == 9
    leader.high_watermark = 0
    world.learn_leader(1, 5)
    await world.settle()
    assert read_batches(own) == read_batches(log)
    assert read_offset_checkpoint(world.fs, path)[TopicPartition(TOPIC, 0)] == 0


@run_with(follow)
async def test_an_epoch_without_records_does_not_hold_a_follower_up(world: FollowerWorld, /) -> None:
    """A leader that appended nothing has noted its epoch, which the next leader does not know."""

    _, log = await leader_with(world, 3)
    world.place({"leader": -1, "leader_epoch": 3})
    own = world.partition().log
    copy(log, own, 1)
    world.learn_leader(FOLLOWER, 4)
    assert own.leader_epochs.entries == [(3, 0), (4, 3)]
    fill(log, 5)
    world.learn_leader(1, 5)
    await world.settle()
    assert read_batches(own) == read_batches(log)
    assert own.leader_epochs.entries == [(3, 0), (5, 3)]


@run_with(follow)
async def test_the_high_watermark_is_the_leaders_as_far_as_the_log_goes(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3, 3)
    leader.high_watermark = 3
    world.place({})
    await world.settle()
    own = world.partition().log
    assert (own.log_end_offset, own.high_watermark) == (6, 3)
    leader.high_watermark = 6
    await world.settle()
    assert own.high_watermark == 6
    leader.high_watermark = 60
    fill(log, 3)
    await world.settle()
    assert own.high_watermark == 9


@run_with(follow)
async def test_the_log_start_follows_the_leaders(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3, 3, 3)
    world.place({})
    await world.settle()
    log.retention.delete_records_before(6)
    await world.settle()
    assert world.partition().log.log_start_offset == 6
    starts = [each.log_start_offset for r in leader.fetches for topic in r.body.topics for each in topic.partitions]
    assert starts[-1] == 6


@run_with(follow)
async def test_a_log_that_the_leader_has_left_behind_begins_anew(world: FollowerWorld, /) -> None:
    _, log = await leader_with(world, 3, 3, 3)
    world.place({"leader": -1, "leader_epoch": 4})
    copy(log, world.partition().log, 1)
    log.retention.delete_records_before(6)
    world.learn_leader(1, 5)
    await world.settle()
    own = world.partition().log
    assert (own.log_start_offset, own.log_end_offset, own.high_watermark) == (6, 9, 9)
    assert read_batches(own) == read_batches(log)
    assert own.leader_epochs.entries == [(3, 6)]


@run_with(follow)
async def test_a_leader_that_begins_inside_a_batch_sends_the_whole_batch(world: FollowerWorld, /) -> None:
    _, log = await leader_with(world, 3, 3, 3)
    log.retention.delete_records_before(4)
    world.place({})
    await world.settle()
    own = world.partition().log
    assert (own.log_start_offset, own.log_end_offset) == (4, 9)
    assert read_batches(own, 4) == read_batches(log, 4)


@run_with(follow)
async def test_a_leader_that_has_less_decides(world: FollowerWorld, /) -> None:
    _, log = await leader_with(world, 3)
    world.place({"leader": -1, "leader_epoch": 4})
    own = world.partition().log
    copy(log, own, 1)
    # Of an epoch that the leader cannot place: it has to be asked for its range.
    own.copying.append_as_follower(make_batch(3, base_offset=3, leader_epoch=9))
    world.learn_leader(1, 5)
    await world.settle()
    assert read_batches(own) == read_batches(log)


@run_with(follow)
async def test_a_range_that_cannot_be_had_is_asked_for_again(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3, 3)
    log.retention.delete_records_before(3)
    leader.errors[-1] = ErrorCode.leader_not_available
    world.place({})
    await world.settle()
    assert len(leader.broker.asked(ApiKey.LIST_OFFSETS)) >= 4
    assert world.partition().log.log_end_offset == 0
    leader.errors.clear()
    await world.settle()
    assert world.partition().log.log_end_offset == 6


@run_with(follow)
async def test_an_error_of_one_partition_does_not_hold_up_the_others(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3)
    fill(leader.lead(1), 3)
    leader.errors[0] = ErrorCode.kafka_storage_error
    world.place({}, {})
    await world.settle()
    assert [world.partition(index).log.log_end_offset for index in (0, 1)] == [0, 3]
    asked = [each for each in reported(leader) if 0 in each]
    assert 2 <= len(asked) <= 4
    leader.errors.clear()
    await world.settle()
    assert read_batches(world.partition().log) == read_batches(log)


@run_with(follow)
async def test_a_leader_that_does_not_know_yet_is_asked_again_soon(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)
    fill(leader.lead(1), 3)
    leader.leader_epoch = 4
    world.place({}, {})
    await world.settle(10)
    leader.leader_epoch = 5
    await world.settle(100)
    assert [world.partition(index).log.log_end_offset for index in (0, 1)] == [3, 3]


@run_with(follow)
async def test_a_fenced_follower_waits_for_new_metadata(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)
    leader.leader_epoch = 6
    world.place({})
    await world.settle()
    assert len(leader.fetches) == 1
    world.learn_leader(1, 6)
    await world.settle()
    assert world.partition().log.log_end_offset == 3


@run_with(follow)
async def test_damaged_records_are_not_appended_and_asked_for_again(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3)
    serve = leader.broker.answers[ApiKey.FETCH]

    def damage(request: Any) -> Any:
        answer = serve(request)
        return answer if len(leader.fetches) > 1 else _damaged(answer)

    leader.broker.answers[ApiKey.FETCH] = damage
    world.place({})
    await world.settle(100)
    assert world.partition().log.log_end_offset == 0
    await world.settle()
    assert read_batches(world.partition().log) == read_batches(log)


def _damaged(answer: Any) -> Any:
    row = answer.responses[0].partitions[0]
    object.__setattr__(row, "records", bytes(row.records[:-1]) + b"?")
    return answer


@run_with(follow)
async def test_a_lost_connection_is_dialled_again(world: FollowerWorld, /) -> None:
    leader, log = await leader_with(world, 3)
    world.place({})
    await world.settle()
    leader.broker.cut_connections()
    fill(log, 3)
    await world.settle()
    assert read_batches(world.partition().log) == read_batches(log)
    assert leader.broker.connection_count == 2
    # What the leader got of the old session is not known: everything is sent, and the session replaced.
    assert len(leader.sessions) == 1


@run_with(follow)
async def test_a_new_partition_does_not_wait_for_the_answer_to_idle_ones(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)
    for index in (1, 2, 3):
        fill(leader.lead(index), 5)
    world.place({}, {"leader": -1}, {"leader": -1}, {"leader": -1})
    await world.settle()
    world.learn_leader(1, 5, 1)
    world.learn_leader(1, 5, 2)
    await world.settle(50)
    assert [world.partition(index).log.log_end_offset for index in (1, 2)] == [3, 3]
    assert (leader.broker.connection_count, len(leader.sessions)) == (2, 1)
    # Once in a while is enough.
    world.learn_leader(1, 5, 3)
    await world.settle(600)
    assert (world.partition(3).log.log_end_offset, leader.broker.connection_count) == (3, 2)


@run_with(follow)
async def test_a_leader_that_does_not_answer_is_given_up(world: FollowerWorld, /) -> None:
    await leader_with(world, 3)
    world.network.partition("host-1", "host-2")
    world.place({})
    await world.settle(40_000)
    world.network.heal("host-1", "host-2")
    await world.settle(40_000)
    assert world.partition().log.log_end_offset == 3


@run_with(follow)
async def test_a_leader_that_cuts_the_connection_is_asked_once_per_backoff(world: FollowerWorld, /) -> None:
    leader, _ = await leader_with(world, 3)

    def cut(_request: Any) -> Any:
        raise DisconnectError

    leader.broker.answers[ApiKey.FETCH] = cut
    world.place({})
    await world.settle(4500)
    assert 4 <= leader.broker.connection_count <= 5


@pytest.mark.parametrize("operation", ["pwritev", "fsync"])
def test_a_disk_that_fails_takes_its_partitions_offline(operation: str) -> None:
    memory = MemoryFileSystem()
    faulty = FaultyFileSystem(memory)

    async def test(world: FollowerWorld) -> None:
        leader, log = await leader_with(world, 3)
        world.place({}, {}, flush_messages="1" if operation == "fsync" else "1000")
        leader.lead(1)
        await world.settle()
        assert world.partition().log.log_end_offset == 3
        faulty.rules.append(FaultRule(operation=operation, path="*.log", error=errno.EIO))
        fill(log, 3)
        await world.settle()
        assert world.logs.offline_dirs == ["/d1"]
        assert list(world.partitions) == []
        fill(log, 3)
        fill(leader.logs[topic_id_of(TOPIC), 1], 3)
        await world.settle()

    follow(test, fs=faulty)


@run_with(follow)
async def test_a_follower_begins_behind_the_tier_with_its_epochs_and_producers(world: FollowerWorld, /) -> None:
    leader, tier, _ = await tier_led(world, 0, 0, 2, 5)
    append(tier.log, make_batch(3, producer=ProducerFields(9)), leader_epoch=5)
    world.remote_reads = tier.reads
    world.learn_leader(1, 5)
    await world.settle()
    own = world.partition().log
    assert (own.log_start_offset, own.local_log_start_offset, own.log_end_offset) == (0, 6, 15)
    assert own.leader_epochs.entries == tier.log.leader_epochs.entries
    assert read_batches(own) == read_batches(tier.log)
    assert set(own.producer_state.entries) == {9}
    assert own.high_watermark == 15
    assert reported(leader)[0] == {0: 0}
    starts = read_offset_checkpoint(world.memory, "/d1/log-start-offset-checkpoint")
    assert starts == {TopicPartition(TOPIC, 0): 0}


@run_with(follow)
async def test_producers_of_tiered_records_are_known_to_a_follower(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    world.place({"leader": -1}, remote_storage_enable="true")
    tier = TierWorld(loop=world.loop, topic_id=topic_id_of("t"))
    append(tier.log, make_batch(3, producer=ProducerFields(9)), leader_epoch=5)
    tier.log.roll(NOW_MS)
    append(tier.log, make_batch(1), leader_epoch=5)
    tier.tier()
    tier.drop_local()
    leader.logs[topic_id_of("t"), 0] = tier.log
    world.remote_reads = tier.reads
    world.learn_leader(1, 5)
    await world.settle()
    own = world.partition().log
    assert own.log_end_offset == 4
    assert own.producer_state.entries[9].batches[-1].last_offset == 2


@run_with(follow)
async def test_a_follower_whose_tier_is_not_at_hand_tries_again(world: FollowerWorld, /) -> None:
    _, tier, _ = await tier_led(world, 0, 0, 2, 5)
    world.learn_leader(1, 5)
    await world.settle()
    own = world.partition().log
    assert own.log_end_offset == 0
    finished, tier.rlmm.remote_log_segment_metadata = tier.rlmm.remote_log_segment_metadata, lambda *_: None  # type: ignore[method-assign]
    world.remote_reads = tier.reads
    await world.settle()
    assert own.log_end_offset == 0
    tier.rlmm.remote_log_segment_metadata = finished  # type: ignore[method-assign]
    await world.settle()
    assert (own.local_log_start_offset, own.log_end_offset) == (6, 12)


@run_with(follow)
async def test_a_follower_that_lost_its_way_while_the_tier_answered_does_nothing(world: FollowerWorld, /) -> None:
    _, tier, _ = await tier_led(world, 0, 0, 2, 5)
    threads = HeldThreads()
    tier.pool._threads = threads
    world.remote_reads = tier.reads
    world.learn_leader(1, 5)
    await world.settle()
    assert threads.waiting
    world.learn_leader(-1, 6)
    threads.release()
    await world.settle()
    assert world.partition().log.log_end_offset == 0
