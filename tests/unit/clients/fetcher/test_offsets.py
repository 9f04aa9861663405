"""ListOffsets: by timestamp and position, to each leader."""

from __future__ import annotations

import pytest

from crabka.clients.fetcher.offsets import EARLIEST, LATEST, list_offsets
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate


@run_with(simulate, node_ids=(1, 2))
async def test_each_leader_is_asked_for_its_partitions(simulation: ClientSimulation, /) -> None:
    for count, partition in enumerate(simulation.brokers.create_topic("t", 3)):
        partition.append_raw(build_batch([Record(0, 100 + index, None, b"") for index in range(count + 1)]))
    wanted = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): EARLIEST, TopicPartition("t", 2): 101}
    async with simulation.connect() as cluster:
        found = await list_offsets(cluster, wanted, read_committed=True)
    assert [found[partition].offset for partition in wanted] == [1, 0, 1]
    requests = simulation.brokers.asked(ApiKey.LIST_OFFSETS)
    assert len(requests) == 2
    assert all(request.body.isolation_level == 1 for request in requests)


@run_with(simulate)
async def test_refusal_is_raised(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.LIST_OFFSETS, ErrorCode.topic_authorization_failed)
    async with simulation.connect() as cluster:
        with pytest.raises(OperationError) as caught:
            await list_offsets(cluster, {TopicPartition("t", 0): LATEST})
    assert caught.value.error_code is ErrorCode.topic_authorization_failed
