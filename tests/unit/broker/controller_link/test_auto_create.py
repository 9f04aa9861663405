"""Topics that come into being because a client asked for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.broker.controller_link.auto_create import MAX_WAIT_MS, AutoTopicCreation, create_missing_topics
from crabka.config.server import ServerConfig
from crabka.errors import OperationError
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.records import ConfigRecord, TopicRecord
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.task_scope import TaskScope
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.nodes.peer_brokers import FakeController
from tests.support.nodes.sim_node import SimNode
from tests.support.quorum.images import cluster, topic_id_of
from tests.support.recorded.metadata_logs import SINGLE, segments, stored_records


def test_topics_get_the_defaults_of_the_node() -> None:
    with SimNode({"num.partitions": "3"}) as node:
        assert node.run(create_missing_topics(node.context, ["a", "a", "b"])) == {}
        topics = node.context.image.topics.by_name
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 3, "b": 3}


def test_illegal_names_are_left_out(node: SimNode) -> None:
    assert node.run(create_missing_topics(node.context, ["a b", ""])) == {}
    assert not node.context.image.topics.by_name


def test_two_who_ask_at_once_get_one_topic(node: SimNode) -> None:
    async def both() -> list[dict[str, ErrorCode]]:
        return list(await asyncio.gather(*(create_missing_topics(node.context, ["t"]) for _ in range(2))))

    assert node.run(both()) == [{}, {}]
    assert list(node.context.image.topics.by_name) == ["t"]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_get_kafkas_counts_and_settings(name: str) -> None:
    messages = [record.message for path in segments(SINGLE) for record in stored_records(path)]
    recorded = {
        message.name: message.value
        for message in messages
        if isinstance(message, ConfigRecord) and message.resource_name == name
    }
    counts = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with SimNode(counts) as node:
        assert node.run(create_missing_topics(node.context, [name])) == {}
        assert len(node.context.image.topics.by_name[name].partitions) == 3
        assert node.context.image.configs.get(2, name) == recorded


def test_what_cannot_be_created_is_reported(node: SimNode) -> None:
    node.create_topic("a.b")
    assert node.run(create_missing_topics(node.context, ["a_b"])) == {"a_b": ErrorCode.invalid_topic_exception}


class Creation:
    """A broker that asks a controller under the test's control, and receives topics when the test says so."""

    def __init__(self) -> None:
        self.image = cluster(1)
        self.controller = FakeController(self.answer)
        self.errors: dict[str, ErrorCode] = {}
        self.failure: OperationError | None = None
        self.tasks = TaskScope()
        config, _ = ServerConfig.from_properties(
            {
                "process.roles": "broker",
                "node.id": "1",
                "controller.quorum.bootstrap.servers": "h:1",
                "controller.listener.names": "C",
                "log.dirs": "/d",
                "num.partitions": "3",
                "default.replication.factor": "2",
            }
        )
        self.creation = AutoTopicCreation(
            self.controller, image=lambda: self.image, config=lambda: config, spawn=self.tasks.start
        )

    def answer(self, _api_key: ApiKey, body: Any, types: MessageTypes) -> Any:
        if self.failure is not None:
            raise self.failure
        rows = [
            types.new(
                "CreatableTopicResult",
                name=topic.name,
                topic_id=None,
                error_code=self.errors.get(topic.name, ErrorCode.none),
                error_message=None,
                num_partitions=1,
                replication_factor=1,
                configs=(),
            )
            for topic in body.topics
        ]
        return types.message(throttle_time=0, topics=rows)

    def appear(self, name: str) -> None:
        """Let the metadata have a topic."""
        delta = MetadataDelta(self.image)
        delta.replay(TopicRecord(name=name, topic_id=topic_id_of(name)))
        self.image = delta.apply(self.image.offset + 1, 1)
        self.creation.on_metadata(delta, self.image)

    def ask(self, *names: str) -> asyncio.Future[dict[str, ErrorCode]]:
        return asyncio.ensure_future(self.creation.create(names))


def with_creation(test: Callable[[Creation], Awaitable[None]]) -> None:
    async def main() -> None:
        world = Creation()
        await test(world)
        await world.tasks.close()

    VirtualTimeLoop().run(main())


@run_with(with_creation)
async def test_a_topic_can_be_used_when_this_broker_knows_it(world: Creation, /) -> None:
    asking = world.ask("a", "b")
    await asyncio.sleep(0.5)
    world.appear("a")
    await asyncio.sleep(0.1)
    assert not asking.done()
    world.appear("b")
    assert await asking == {}
    ((_, body),) = world.controller.asked
    wanted = [(topic.name, topic.num_partitions, topic.replication_factor) for topic in body.topics]
    assert wanted == [("a", 3, 2), ("b", 3, 2)]


@run_with(with_creation)
async def test_a_client_asks_again_for_a_topic_that_does_not_come(world: Creation, /) -> None:
    began = asyncio.get_running_loop().time()
    assert await world.ask("a") == {"a": ErrorCode.unknown_topic_or_partition}
    assert asyncio.get_running_loop().time() - began == pytest.approx(MAX_WAIT_MS / 1000)
    # Nothing is kept for one who gave up, though no topic ever comes.
    assert not world.creation._waiting


@run_with(with_creation)
async def test_there_is_one_request_for_a_topic_at_a_time(world: Creation, /) -> None:
    world.controller.open.clear()
    asking = [world.ask("a"), world.ask("a", "b"), world.ask("b", "a")]
    unknown = ErrorCode.unknown_topic_or_partition
    assert [await each for each in asking] == [
        {"a": unknown},
        {"a": unknown, "b": unknown},
        {"b": unknown, "a": unknown},
    ]
    assert world.controller.names() == [["a"], ["b"]]
    world.controller.open.set()
    await asyncio.sleep(0.1)
    again = world.ask("a")
    await asyncio.sleep(0)
    world.appear("a")
    assert await again == {}
    assert world.controller.names() == [["a"], ["b"], ["a"]]


@run_with(with_creation)
async def test_errors_of_the_controller_are_reported(world: Creation, /) -> None:
    world.errors = {"a": ErrorCode.invalid_replication_factor, "b": ErrorCode.topic_already_exists}
    asking = world.ask("a", "b")
    await asyncio.sleep(0)
    world.appear("b")
    assert await asking == {"a": ErrorCode.invalid_replication_factor}
    world.failure = OperationError(ErrorCode.request_timed_out)
    assert await world.ask("c") == {"c": ErrorCode.unknown_topic_or_partition}


@run_with(with_creation)
async def test_known_topics_are_not_asked_for(world: Creation, /) -> None:
    world.appear("a")
    assert await world.ask("a") == {}
    assert world.controller.asked == []
