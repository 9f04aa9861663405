"""Where leader epochs end."""

from __future__ import annotations

import pytest

from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd, epoch_ends
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.topic import append_values

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@run_with(simulate, node_ids=(1, 2))
async def test_each_leader_is_asked_for_its_partitions(simulation: ClientSimulation, /) -> None:
    first, second = simulation.brokers.create_topic("t", 2)
    append_values(first, [b"a", b"b"])
    append_values(second, [b"c"])
    second.elect(1)
    append_values(second, [b"d", b"e"])
    async with simulation.connect() as cluster:
        simulation.brokers.fail_next(ApiKey.OFFSET_FOR_LEADER_EPOCH, ErrorCode.not_leader_or_follower)
        found = await epoch_ends(cluster, {T0: 4, T1: 0})
    assert found == {T0: LeaderEpochEnd(0, 2), T1: LeaderEpochEnd(0, 1)}


@run_with(simulate)
async def test_an_error_that_stays_is_raised(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster:
        simulation.brokers.fail_next(ApiKey.OFFSET_FOR_LEADER_EPOCH, ErrorCode.topic_authorization_failed)
        with pytest.raises(OperationError, match="epochs of t-0: topic_authorization_failed"):
            await epoch_ends(cluster, {T0: 0})


def test_a_log_has_a_record_if_its_epoch_reaches_so_far() -> None:
    end = LeaderEpochEnd(3, 10)
    assert end.has(3, 10)
    assert not end.has(3, 11)
    assert not end.has(4, 5)
