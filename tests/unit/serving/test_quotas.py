"""Quotas of clients on a node: what is measured, what the client receives, and that its connection is not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crabka.metadata.security import QuotaEntity
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, encode_request, encode_response, request_types, response_types
from crabka.protocol.headers import RequestHeader, pack_request, pack_response
from crabka.protocol.throttle_time import throttle_ms_of
from crabka.security.quotas.windows import WindowSettings
from crabka.serving.quotas import ClientQuotas
from tests.support.nodes.sim_node import SimNode, batch, build, fetch_body, produce_body
from tests.support.quorum.quotas import alter
from tests.support.wire.net import ManualClock

TOPIC = "t"
LARGE = batch(b"x" * 20_000)


@pytest.fixture(scope="module")
def node() -> Iterator[SimNode]:
    with SimNode() as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture
def limit(node: SimNode) -> Iterator[Callable[..., None]]:
    """Sets quotas, which end with the test."""
    limits: list[tuple[dict[str, str | None], str]] = []

    def set_quota(key: str, value: float, **entity: str | None) -> None:
        names = {kind.replace("_", "-"): name for kind, name in entity.items()}
        assert alter(node, names, {key: value}).error_code == 0
        limits.append((names, key))

    yield set_quota
    for names, key in limits:
        alter(node, names, {key: None})
    node.advance(60_000)


def produce_ms(node: SimNode, *, version: int = 9) -> int:
    answer = node.ask(ApiKey.PRODUCE, version, produce_body(TOPIC, LARGE, version=version))
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time.total_seconds() * 1000 + 0.5)


def test_a_producer_above_its_rate_waits_and_nothing_is_refused(node: SimNode, limit: Callable[..., None]) -> None:
    """20 KB at 1,000 bytes per second: ten seconds are free, and the next request waits for the rest."""
    limit("producer_byte_rate", 1000.0, client_id="sim")
    throttle_ms = produce_ms(node)
    assert throttle_ms == pytest.approx(10_000, rel=0.03)
    began = node.loop.time()
    produce_ms(node)
    assert node.loop.time() - began == pytest.approx(throttle_ms / 1000, rel=0.01)


def test_a_rate_is_kept_by_a_client_that_never_pauses(node: SimNode, limit: Callable[..., None]) -> None:
    """It sends as fast as its connection is read, whatever the throttle time says.

    As in Kafka a burst may return when it leaves the windows, so the rate is measured over many of them.
    """
    limit("producer_byte_rate", 50_000.0, user="ANONYMOUS")
    for _ in range(60):
        produce_ms(node)  # fills the windows
    began, sent = node.loop.time(), 0
    while node.loop.time() - began < 220:
        produce_ms(node)
        sent += len(LARGE)
    assert sent / (node.loop.time() - began) == pytest.approx(50_000, rel=0.05)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_every_version_of_a_produce_response_names_the_time(
    node: SimNode, limit: Callable[..., None], version: int
) -> None:
    limit("producer_byte_rate", 1000.0, user=None)
    assert produce_ms(node, version=version) > 0


def test_a_consumer_above_its_rate_waits(node: SimNode, limit: Callable[..., None]) -> None:
    produce_ms(node)
    limit("consumer_byte_rate", 1000.0, client_id=None)
    body = fetch_body([(TOPIC, 0, 0)])
    answer = node.ask(ApiKey.FETCH, 12, body)
    assert answer.responses[0].partitions[0].records
    throttle = answer.throttle_time.total_seconds()
    assert throttle > 5
    began = node.loop.time()
    node.ask(ApiKey.FETCH, 12, body)
    assert node.loop.time() - began >= throttle * 0.99


@pytest.mark.parametrize("version", [4, 14, 17])
def test_a_replica_is_not_throttled(node: SimNode, limit: Callable[..., None], version: int) -> None:
    produce_ms(node)
    limit("consumer_byte_rate", 1000.0, client_id="sim")
    topic_id = node.context.partitions.by_name(TOPIC, 0).topic_id
    target = topic_id if version >= 13 else TOPIC
    replica: dict[str, Any] = {"replica_id": 1} if version < 15 else {"replica_state": _replica_state(version)}
    answer = node.ask(ApiKey.FETCH, version, fetch_body([(target, 0, 0)], version=version, **replica))
    assert answer.throttle_time.total_seconds() == 0
    assert node.ask(ApiKey.FETCH, version, fetch_body([(target, 0, 0)], version=version)).throttle_time > (
        answer.throttle_time
    )


def _replica_state(version: int) -> Any:
    return request_types(int(ApiKey.FETCH), version).new("ReplicaState", replica_id=1, replica_epoch=-1)


def test_a_client_without_a_quota_is_not_measured(node: SimNode, limit: Callable[..., None]) -> None:
    limit("producer_byte_rate", 1.0, client_id="another")
    assert produce_ms(node) == 0


def test_a_connection_that_is_lost_while_it_waits_frees_the_node(node: SimNode, limit: Callable[..., None]) -> None:
    limit("producer_byte_rate", 100.0, client_id="sim")
    assert produce_ms(node) > 100_000
    node.client.transport.abort()
    node.advance(100)
    alter(node, {"client-id": "sim"}, {"producer_byte_rate": None})
    assert produce_ms(node) == 0


def test_a_node_without_quotas_has_no_gate(node: SimNode, limit: Callable[..., None]) -> None:
    assert node.node is not None
    (server,) = node.node.listeners._client_servers
    plain = server.dispatch
    limit("producer_byte_rate", 1e9, user="a")
    assert server.dispatch is not plain
    alter(node, {"user": "a"}, {"producer_byte_rate": None})
    assert server.dispatch is plain


class ProcessorClock(ManualClock):
    """Also has a processor, which requests use."""

    def __init__(self) -> None:
        super().__init__()
        self.used_ns = 0

    def processor_ns(self) -> int:
        return self.used_ns


@pytest.mark.parametrize(("used_ms", "throttle_ms"), [(49, 0), (51, 200), (5000, 1000)])
def test_time_on_the_loop_has_a_share_of_a_processor(used_ms: int, throttle_ms: int) -> None:
    """One percent of eleven windows, of which ten are full, is 100 ms; a wait is a window at most."""
    clock = ProcessorClock()
    quotas = ClientQuotas(clock, WindowSettings())
    entity: QuotaEntity = (("user", "ANONYMOUS"),)
    assert quotas.take({entity: {"request_percentage": 1.0}})
    answer_bytes = encode_response(response_types(int(ApiKey.HEARTBEAT), 4).message(throttle_time=0, error_code=0))
    muted: list[int] = []

    def busy(_connection: ConnectionInfo, _frame: memoryview) -> Any:
        clock.used_ns += used_ms * 1_000_000
        return (pack_response(int(ApiKey.HEARTBEAT), 4, 7, answer_bytes),)

    connection = ConnectionInfo(1, "PLAINTEXT", "h", 1, mute=muted.append)
    request = build(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    frame = pack_request(RequestHeader(int(ApiKey.HEARTBEAT), 4, 7, "c", 0), encode_request(request))
    gate = quotas.gate(busy)
    gate(connection, memoryview(frame)[4:])
    answer = gate(connection, memoryview(frame)[4:])
    assert not isinstance(answer, asyncio.Future)
    assert answer is not None
    assert throttle_ms_of(int(ApiKey.HEARTBEAT), 4, answer) == throttle_ms
    assert muted[-1:] == [throttle_ms] * bool(throttle_ms)


def test_the_same_quotas_change_nothing() -> None:
    quotas = ClientQuotas(ManualClock(), WindowSettings())
    entities: dict[QuotaEntity, dict[str, float]] = {(("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}}
    assert quotas.take(entities)
    assert not quotas.take(entities)
    assert quotas.is_empty
