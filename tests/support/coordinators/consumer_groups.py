"""Consumer groups for tests: a core with its answers and records, topics for it, and groups put into a node."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from crabka.broker.groups.consumer.catalog import TopicCatalog
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.consumer.member import MemberMetadata
from crabka.broker.groups.consumer.messages import (
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    CreationFailed,
    Downgraded,
    PersistBatch,
    RecordsStored,
)
from crabka.broker.groups.consumer.records import GroupEpochRecord, MemberRecord
from crabka.broker.groups.consumer.settings import ConsumerSettings
from crabka.broker.groups.messages import Answer, Join, Tick
from crabka.broker.groups.records import Pair, decode_pair
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import subscription

if TYPE_CHECKING:
    from crabka.broker.groups.consumer.records import ConsumerRecord
    from tests.support.nodes.sim_node import SimNode

SETTINGS = ConsumerSettings(session_timeout_ms=10_000, assignment_interval_ms=0)


def topic_id(number: int) -> uuid.UUID:
    """Return the id of a topic of `catalog_of`."""
    return uuid.UUID(int=number + 1)


def catalog_of(**partition_counts: int) -> TopicCatalog:
    """Return topics without racks; their ids count from `topic_id(0)` on."""
    catalog = TopicCatalog()
    for number, (name, count) in enumerate(partition_counts.items()):
        catalog.put(name, topic_id(number), [[] for _ in range(count)])
    return catalog


def keep_consumer_group(node: SimNode, group_id: str, *member_ids: str) -> ConsumerGroup:
    """Put a consumer group into a node, as its records say."""
    shard = node.context.groups.shard_of(group_id).shard
    group = shard.consumer_group(group_id)
    group.replay(GroupEpochRecord(group_id, 5))
    for member_id in member_ids:
        group.replay(MemberRecord(group_id, member_id, MemberMetadata(topic_names=("t",))))
    shard.groups[group_id] = group
    return group


class ConsumerCore:
    """A core with its answers and the log of its records, storing at once by default."""

    def __init__(self, catalog: TopicCatalog | None = None, settings: ConsumerSettings = SETTINGS) -> None:
        self.catalog = catalog if catalog is not None else catalog_of(t=4)
        self.settings = settings
        self.group = ConsumerGroup("g", self.catalog, lambda _group_id: self.settings)
        self.now_ms = 1_000
        self.log: list[Pair] = []
        self.answers: dict[Any, Any] = {}
        self.waiting: list[PersistBatch] = []
        self.others: list[Downgraded | CreationFailed] = []
        self.holds_stores = False
        self._replies = 0

    def step(self, event: ConsumerEvent) -> None:
        """Step; what is to be stored is stored at once unless `holds_stores` is set."""
        for action in self.group.step(event, self.now_ms):
            match action:
                case Answer(reply, result):
                    assert reply not in self.answers
                    self.answers[reply] = result
                case PersistBatch():
                    self.waiting.append(action)
                case Downgraded() | CreationFailed():
                    self.others.append(action)
        if not self.holds_stores:
            self.finish_stores()

    def finish_stores(self, error_code: ErrorCode = ErrorCode.none) -> None:
        """Step the core with the outcome of what it gave to store."""
        while self.waiting:
            batch = self.waiting.pop(0)
            if error_code is ErrorCode.none:
                self.log += batch.pairs
            self.step(RecordsStored(error_code))

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResult:
        """Report; return the answer, which has to be there."""
        answer = self.post(member_id, epoch, **fields)
        assert answer is not None
        return answer

    def post(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResult | None:
        """Report; return the answer if there is one yet."""
        self._replies += 1
        if epoch == 0:
            joining = {"rebalance_timeout_ms": 60_000, "owned": {}}
            if "topic_regex" not in fields:
                joining["topic_names"] = ("t",)
            fields = {**joining, **fields}
        self.step(ConsumerHeartbeat(reply=self._replies, member_id=member_id, member_epoch=epoch, **fields))
        answer: ConsumerHeartbeatResult | None = self.answers.get(self._replies)
        return answer

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass; what is due happens."""
        self.now_ms += milliseconds
        if self.group.deadlines.first_ms <= self.now_ms:
            self.step(Tick())

    def restart(self) -> None:
        """Load the group from its records, as another node would."""
        self.group = ConsumerGroup("g", self.catalog, lambda _group_id: self.settings)
        self.waiting.clear()
        for record in self.records():
            self.group.replay(record)
        self.group.loaded(self.now_ms)

    def records(self) -> list[ConsumerRecord]:
        """Return what was stored of the consumer group."""
        found = [decode_pair(key, value) for key, value in self.log]
        return [each for each in found if each is not None and hasattr(each, "group_id")]  # type: ignore[misc]


def owned(result: ConsumerHeartbeatResult) -> dict[uuid.UUID, frozenset[int]]:
    """Return what a member owns after an answer with an assignment."""
    assert result.assignment is not None
    return {each: frozenset(partitions) for each, partitions in result.assignment.items()}


def classic_join(reply: Any, member_id: str, **fields: Any) -> Join:
    """Return the join of a classic consumer of the topic `t`."""
    owned_partitions = fields.pop("owned", None)
    defaults: dict[str, Any] = {
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("cooperative", subscription("t", owned=owned_partitions)),),
        "new_member_id": f"new-{reply}",
        "requires_known_member_id": True,
    }
    return Join(reply=reply, member_id=member_id, **{**defaults, **fields})


def beat(node: SimNode, member_id: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
    """Report to a node for the group `g`; who joins subscribes to the topic `t`."""
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    silent = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
    body: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "server_assignor": None,
        **(joining if epoch == 0 else silent),
        **({"subscribed_topic_regex": None} if version > 0 else {}),
        **fields,
    }
    return node.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **body)
