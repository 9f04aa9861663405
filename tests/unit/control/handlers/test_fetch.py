"""Fetch of the metadata log at the controller listener."""

from __future__ import annotations

from uuid import UUID

from crabka.kraft.messages import MetadataFetchRequest
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.apis import ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft_messages import encode_request
from tests.support.async_tests import run_with
from tests.support.quorum_node import new_topic
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


def fetch(epoch: int, offset: int, max_wait_ms: int = 0) -> MetadataFetchRequest:
    return MetadataFetchRequest(
        cluster_id=CLUSTER_ID,
        replica=ReplicaKey(9, UUID(int=9)),
        epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset else 0,
        max_wait_ms=max_wait_ms,
        max_bytes=1 << 20,
        high_watermark=-1,
    )


@run_with(run_controllers)
async def test_an_observer_reads_the_log(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    response = await node.ask_quorum(ApiKey.FETCH, 17, fetch(node.quorum.leader_epoch, 0))
    (partition,) = response.responses[0].partitions
    assert partition.error_code is ErrorCode.none
    assert partition.records


@run_with(run_controllers)
async def test_a_fetch_at_the_end_waits_for_news(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    client = await node.connect()
    end = node.quorum.next_offset
    body = fetch(node.quorum.leader_epoch, end, 10_000)
    client.post(ApiKey.FETCH, 17, encode_request(request_types(ApiKey.FETCH, 17), body))
    await node.quorum.append(new_topic("t", 1))
    _, response = await client.response(ApiKey.FETCH, 17)
    assert response.responses[0].partitions[0].records
    client.transport.close()
