"""Envelopes: a forwarded request and its answer, header and body as bytes."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, encode_request, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from crabka.security.principal import Principal, pack_principal
from crabka.serving.request import Request
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import build, row
from tests.support.quorum.sim_controllers import SimController, SimControllers, run_controllers
from tests.support.security.guarded_node import guarded_node

LOCALHOST = bytes([127, 0, 0, 1])


def wrapped(api_key: ApiKey, version: int, **fields: Any) -> bytes:
    header = RequestHeader(int(api_key), version, 77, "client", 0)
    return pack_request(header, encode_request(build(api_key, version, **fields)))[4:]


async def forward(node: SimController, data: bytes, address: bytes = LOCALHOST) -> Any:
    fields = {"request_data": data, "request_principal": b"", "client_host_address": address}
    return await node.ask(ApiKey.ENVELOPE, 0, **fields)


def unregister(broker_id: int) -> bytes:
    return wrapped(ApiKey.UNREGISTER_BROKER, 0, broker_id=broker_id)


@run_with(run_controllers)
async def test_the_answer_has_the_header_of_its_request(cluster: SimControllers, /) -> None:
    response = await forward(await cluster.active(), unregister(5))
    assert response.error_code is ErrorCode.none
    frame = memoryview(response.response_data)
    correlation_id, offset = parse_response_header(frame, ApiKey.UNREGISTER_BROKER, 0)
    inner = read_response(ApiKey.UNREGISTER_BROKER, 0, frame, offset)
    # An error of the request is not one of the envelope.
    assert (correlation_id, inner.error_code) == (77, ErrorCode.broker_id_not_registered)


@run_with(run_controllers)
async def test_quorum_requests_are_forwarded_as_well(cluster: SimControllers, /) -> None:
    topics = [row("TopicData", topic_name="__cluster_metadata", partitions=[row("PartitionData", partition_index=0)])]

    response = await forward(await cluster.active(), wrapped(ApiKey.DESCRIBE_QUORUM, 2, topics=topics))
    frame = memoryview(response.response_data)
    _, offset = parse_response_header(frame, ApiKey.DESCRIBE_QUORUM, 2)
    assert read_response(ApiKey.DESCRIBE_QUORUM, 2, frame, offset).topics[0].partitions[0].leader_id == 1


@run_with(run_controllers, 3)
async def test_a_controller_that_is_not_active_says_so_on_the_envelope(cluster: SimControllers, /) -> None:
    node = await cluster.passive()
    elect = wrapped(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=1000)
    for data in (unregister(5), elect):
        response = await forward(node, data)
        assert (response.error_code, response.response_data) == (ErrorCode.not_controller, None)


@pytest.mark.parametrize(
    ("data", "address", "code"),
    [
        (unregister(5), b"", ErrorCode.invalid_request),
        (wrapped(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=1, broker_epoch=1), LOCALHOST, ErrorCode.invalid_request),
        (b"", LOCALHOST, ErrorCode.unsupported_version),
        (unregister(5)[:-2], LOCALHOST, ErrorCode.unsupported_version),
        (b"\0\x40\0\x63" + unregister(5)[4:], LOCALHOST, ErrorCode.unsupported_version),
    ],
    ids=["address", "not forwardable", "empty", "cut", "version"],
)
@run_with(run_controllers)
async def test_what_cannot_be_opened_is_refused(
    cluster: SimControllers, /, data: bytes, address: bytes, code: ErrorCode
) -> None:
    assert (await forward(await cluster.active(), data, address)).error_code is code


def test_a_forwarded_request_has_the_permissions_of_its_client_and_the_envelope_those_of_its_broker() -> None:
    topics = [
        row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=[])
        for name in ("open-new", "new")
    ]
    inner = wrapped(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=True)
    body = build(
        ApiKey.ENVELOPE,
        0,
        request_data=inner,
        request_principal=pack_principal(Principal("User", "alice")),
        client_host_address=LOCALHOST,
    )
    with guarded_node() as guarded:
        assert guarded.sim.node is not None
        assert guarded.sim.node.controller is not None
        context = guarded.sim.node.controller.context

        def answer(broker: str) -> Any:
            connection = ConnectionInfo(1, "CONTROLLER", "node", 1, principal=Principal("User", broker))
            request = Request(ApiKey.ENVELOPE, 0, 1, None, body, connection)
            handled: Any = context.load(ApiKey.ENVELOPE).handle(context, request)
            return guarded.sim.run(handled)

        forwarded = memoryview(answer("root").response_data)
        _, offset = parse_response_header(forwarded, int(ApiKey.CREATE_TOPICS), 7)
        created = read_response(ApiKey.CREATE_TOPICS, 7, forwarded, offset)
        assert {topic.name: topic.error_code for topic in created.topics} == {
            "open-new": ErrorCode.none,
            "new": ErrorCode.topic_authorization_failed,
        }
        assert answer("bob").error_code is ErrorCode.cluster_authorization_failed
