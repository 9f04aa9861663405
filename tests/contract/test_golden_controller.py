"""Recorded sessions of Kafka's brokers and controllers with their active controller, played again to ours.

Requests are the recorded ones but for what a controller chooses itself: broker epochs, topic ids, offsets. What the
sample lacks is added: heartbeats that unfence a broker or let it stop. Every answer must have the shape of Kafka's.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from crabka.protocol.apis import ApiKey, read_request, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import parse_request_header, parse_response_header
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import CLUSTER_ID, SimController, SimControllers, WireBroker, run_controllers
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.wire_shapes import shape_of, topic_ids

# Answers of the quorum itself depend on its history; its codec is compared byte by byte elsewhere.
PLAYED = {
    ApiKey.CREATE_TOPICS,
    ApiKey.ENVELOPE,
    ApiKey.ALTER_PARTITION,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
}
# Topics whose replicas the recorded request names; the others are placed at random.
PLACED = {"r", "txr"}
# Such a topic may have its preferred leader already.
BY_CHANCE = {(".replica_election_results[].partition_result[]", "empty")}
# The epoch of the last registration that was recorded.
LAST_EPOCH = 118


class Played(NamedTuple):
    """One recorded request with its answer, decoded."""

    label: str
    api_key: ApiKey
    version: int
    request: Any
    response: Any


def recorded(session: str, listener: str) -> list[Played]:
    """Return what a controller was asked, in the order of the requests."""
    rows = [json.loads(line) for line in (GOLDEN / "wire" / f"{session}.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["listener"] == listener and row["api_key"] in set(PLAYED)]
    answers = {(row["conn"], row["correlation_id"]): row for row in rows if row["dir"] == "response"}
    found = []
    for row in rows:
        if row["dir"] == "request":
            key, version = ApiKey(row["api_key"]), row["api_version"]
            frame = memoryview(bytes.fromhex(row["hex"]))
            request = read_request(key, version, frame, parse_request_header(frame).body_offset)
            answer = memoryview(bytes.fromhex(answers[row["conn"], row["correlation_id"]]["hex"]))
            response = read_response(key, version, answer, parse_response_header(answer, key, version)[1])
            found.append(Played(f"{row['ms']} {row['api']} v{version}", key, version, request, response))
    return found


class SessionPlayer:
    """Plays requests to a controller and remembers what it chose."""

    def __init__(self, cluster: SimControllers, node: SimController) -> None:
        self._cluster = cluster
        self.node = node
        self.brokers: dict[int, WireBroker] = {}
        self._epochs: dict[int, int] = {-1: -1}
        self._topic_ids: dict[UUID, UUID] = {}

    async def play(self, exchange: Played) -> None:
        """Ask as recorded and compare the answers."""
        key, request = exchange.api_key, exchange.request
        if key is ApiKey.BROKER_REGISTRATION and request.broker_id in self.brokers:
            await self._stop(self.brokers[request.broker_id])
        if key is ApiKey.ENVELOPE:
            await self._unfence()
        response = await self.node.ask(key, exchange.version, self._translated(request))
        assert shape_of(response) == shape_of(exchange.response), exchange.label
        theirs, ours = topic_ids(exchange.response), topic_ids(response)
        if key is ApiKey.ENVELOPE:
            inner, recorded_inner = _opened(request, response), _opened(request, exchange.response)
            assert shape_of(inner) - BY_CHANCE == shape_of(recorded_inner) - BY_CHANCE, exchange.label
            theirs, ours = topic_ids(recorded_inner), topic_ids(inner)
        self._topic_ids |= {UUID(bytes=theirs[name]): UUID(bytes=ours[name]) for name in theirs}
        if key is ApiKey.BROKER_REGISTRATION:
            self._epochs[exchange.response.broker_epoch] = response.broker_epoch
            broker = self.brokers[request.broker_id] = WireBroker(self._cluster, request.broker_id)
            broker.epoch = response.broker_epoch
            if exchange.response.broker_epoch == LAST_EPOCH:
                await self._unfence()

    async def _unfence(self) -> None:
        for broker in self.brokers.values():
            assert not (await broker.heartbeat(self.node)).is_fenced

    async def _stop(self, broker: WireBroker) -> None:
        """Let a broker stop in order, as the recorded one did."""
        for _ in range(3):
            for each in self.brokers.values():
                reply = await each.heartbeat(self.node, want_shut_down=each is broker)
                if reply.should_shut_down:
                    return
        raise AssertionError("the controller does not let the broker go")

    def _translated(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._translated(each) for each in value)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            match field.name:
                case "broker_epoch" | "previous_broker_epoch":
                    changes[field.name] = type(part)(self._epochs[part])
                case "cluster_id":
                    changes[field.name] = CLUSTER_ID
                case "topic_id":
                    changes[field.name] = self._topic_ids[part]
                case "current_metadata_offset":
                    changes[field.name] = type(part)(self._offset(value))
                case _:
                    changes[field.name] = self._translated(part)
        translated = dataclasses.replace(value, **changes)
        return self._with_epochs(translated) if hasattr(translated, "topics") else translated

    def _offset(self, heartbeat: Any) -> int:
        is_behind = heartbeat.current_metadata_offset < heartbeat.broker_epoch
        return self._epochs[heartbeat.broker_epoch] - 1 if is_behind else self.node.quorum.image.offset

    def _with_epochs(self, request: Any) -> Any:
        """Epochs of partitions that were placed at random are ours; those of the others must be Kafka's."""
        topics = []
        for topic in request.topics or ():
            if not hasattr(topic, "topic_id") or not hasattr(topic.partitions[0], "partition_epoch"):
                return request
            image = self.node.context.image.topics.by_id[topic.topic_id]
            partitions = []
            for partition in topic.partitions:
                state = image.partitions[partition.partition_index]
                if image.name in PLACED:
                    asked = (partition.leader_epoch, partition.partition_epoch)
                    assert asked == (state.leader_epoch, state.partition_epoch), (image.name, partition)
                epochs = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
                kept = {name: type(getattr(partition, name))(value) for name, value in epochs.items()}
                partitions.append(dataclasses.replace(partition, **kept))
            topics.append(dataclasses.replace(topic, partitions=tuple(partitions)))
        return dataclasses.replace(request, topics=tuple(topics))


def _opened(envelope: Any, response: Any) -> Any:
    assert response.error_code is ErrorCode.none
    header = parse_request_header(memoryview(envelope.request_data))
    frame = memoryview(response.response_data)
    correlation_id, offset = parse_response_header(frame, header.api_key, header.api_version)
    assert correlation_id == header.correlation_id
    return read_response(header.api_key, header.api_version, frame, offset)


@pytest.mark.parametrize(("session", "listener"), [("cluster", "controller"), ("quorum", "controller1")])
@run_with(run_controllers)
async def test_a_recorded_session_is_answered_in_the_same_shape(
    cluster: SimControllers, /, session: str, listener: str
) -> None:
    exchanges = recorded(session, listener)
    assert len(exchanges) > 15

    node = await cluster.active()
    await cluster.wait(lambda: bool(node.context.image.cluster.controllers))
    player = SessionPlayer(cluster, node)
    for exchange in exchanges:
        await player.play(exchange)
