"""What a broker knows of the cluster, and how it makes sure of it."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.broker.tiering.expire.cluster_facts import BrokerClusterFacts
from crabka.errors import OperationError
from crabka.log.dirs.log_manager import LogManager
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.segments import TopicIdPartition
from crabka.testing import VirtualTimeLoop
from tests.support.nodes.sim_node import SimNode, build, row


def facts_of(node: SimNode) -> BrokerClusterFacts:
    return BrokerClusterFacts(node.context.quorum, node.context.controller, timeout_ms=1000)


def test_a_topic_is_known_by_its_id(node: SimNode) -> None:
    node.create_topic("t")
    topic_id = node.context.image.topics.by_name["t"].topic_id
    facts = facts_of(node)
    assert not facts.is_topic_deleted(TopicIdPartition(topic_id, "t", 0))
    assert facts.is_topic_deleted(TopicIdPartition(uuid.UUID(int=5), "t", 0))


def test_a_broker_that_knows_everything_has_caught_up_at_once(node: SimNode) -> None:
    node.create_topic("t")
    before = node.loop.time()
    node.run(facts_of(node).catch_up())
    assert node.loop.time() - before < 0.05


def answer(high_watermark: int, error_code: ErrorCode = ErrorCode.none) -> Any:
    partition = SimpleNamespace(high_watermark=high_watermark, error_code=error_code)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])


def catch_up(quorum: Any, reported: Any) -> float:
    """Catch up with a controller that answers this; return how long it took."""
    loop = VirtualTimeLoop()

    class Controller:
        async def request(self, _api_key: object, _build: object) -> Any:
            return reported

    async def main() -> float:
        if quorum.settled_to < 100:
            loop.call_later(0.3, setattr, quorum, "settled_to", 100)
        controller: Any = Controller()
        await BrokerClusterFacts(quorum, controller, timeout_ms=1000).catch_up()
        return loop.time()

    return loop.run(main())


def test_a_broker_that_lags_waits_for_the_news() -> None:
    assert 0.3 <= catch_up(SimpleNamespace(settled_to=50), answer(100)) < 0.5
    assert catch_up(SimpleNamespace(settled_to=100), answer(100)) == 0


def test_news_count_when_the_parts_of_the_broker_have_them(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was replaced learns that from a change that waits for a disk, after it is in the image."""
    node.create_topic("t")
    created: asyncio.Future[None] = node.loop.create_future()

    async def create_late(_logs: LogManager, *_args: object) -> None:
        await created

    monkeypatch.setattr(LogManager, "create_all", create_late)
    topic = row("CreatableTopic", name="late", num_partitions=1, replication_factor=1, assignments=(), configs=())
    body = build(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000, validate_only=False)
    node.client.post(ApiKey.CREATE_TOPICS, 7, body)
    node.advance(100)
    assert "late" in node.context.image.topics.by_name

    async def main() -> bool:
        catching_up = asyncio.ensure_future(facts_of(node).catch_up())
        await asyncio.sleep(0.5)
        was_done = catching_up.done()
        created.set_result(None)
        await catching_up
        return was_done

    assert not node.run(main())


def test_a_broker_that_lags_for_too_long_is_notified() -> None:
    with pytest.raises(OperationError, match="lags behind"):
        catch_up(SimpleNamespace(settled_to=50), answer(101))


def test_a_controller_that_does_not_know_is_no_witness() -> None:
    with pytest.raises(OperationError) as caught:
        catch_up(SimpleNamespace(settled_to=100), answer(-1, ErrorCode.not_leader_or_follower))
    assert caught.value.error_code is ErrorCode.not_leader_or_follower
