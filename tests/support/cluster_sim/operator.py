"""The operator of a cluster: creates and deletes topics, moves replicas, elects preferred leaders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from crabka.clients.admin import Admin
from crabka.clients.admin_types import NewTopic
from crabka.clients.cluster import Cluster
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from tests.support.cluster_sim.clients import ClientDesk, TopicPlan, configs_of

TIMEOUT_MS = 3_000


class Operator:
    """One change after the other, as far as the cluster lets it."""

    def __init__(self, desk: ClientDesk, broker_ids: list[int], topics: list[TopicPlan]) -> None:
        self._desk = desk
        self._broker_ids = broker_ids
        self._topics = topics
        self._rng = random.Random(desk.rng.getrandbits(64))
        self._passing: list[str] = []
        self._count = 0
        self.changes = 0

    async def create_topics(self) -> None:
        """Create the topics of the run, however often that takes."""
        for plan in self._topics:
            while not await self._try("create", self._create(plan.name, plan)):
                await asyncio.sleep(0.3)

    async def operate_forever(self) -> None:
        """Change things at random until cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.5, 4))
            deed = self._rng.choice([self._pass, self._pass, self._reassign, self._reassign, self._elect])
            await self._try(deed.__name__.strip("_"), deed())

    async def _try(self, what: str, change: Any) -> bool:
        try:
            await change
        except CrabkaError as error:
            self._desk.trace.note(f"operator: {what}: {error}")
            return "already exists" in str(error).lower() or "topic_already_exists" in str(error)
        self.changes += 1
        return True

    async def _create(self, name: str, plan: TopicPlan) -> None:
        async with self._desk.connect() as cluster:
            topic = NewTopic(name, plan.partitions, plan.replication_factor, configs_of(plan))
            await Admin(cluster, TIMEOUT_MS).create_topics([topic])
            self._desk.trace.note(f"operator: {name} is created")

    async def _pass(self) -> None:
        """Create or delete a topic that nobody reads."""
        if self._passing and self._rng.random() < 0.6:
            name = self._passing.pop(0)
            async with self._desk.connect() as cluster:
                await Admin(cluster, TIMEOUT_MS).delete_topics([name])
                self._desk.trace.note(f"operator: {name} is deleted")
            return
        self._count += 1
        name = f"passing-{self._count}"
        await self._create(name, TopicPlan(name, 2, min(2, len(self._broker_ids))))
        self._passing.append(name)

    async def _reassign(self) -> None:
        """Move a partition to other brokers, or give up moves that are under way."""
        plan = self._rng.choice(self._topics)
        where = self._rng.choice(plan.places)
        replicas = None
        if self._rng.random() < 0.85:
            replicas = self._rng.sample(self._broker_ids, min(plan.replication_factor, len(self._broker_ids)))
        async with self._desk.connect() as cluster:
            answer = await self._ask_reassignment(cluster, where, replicas)
        self._desk.trace.note(f"operator: {where} to {replicas}: {answer}")

    async def _ask_reassignment(self, cluster: Cluster, where: TopicPartition, replicas: list[int] | None) -> str:
        def build(types: MessageTypes) -> Any:
            row = types.new("ReassignablePartition", partition_index=where.partition, replicas=replicas)
            topic = types.new("ReassignableTopic", name=where.topic, partitions=[row])
            return types.message(timeout=TIMEOUT_MS, topics=[topic])

        answer = await cluster.request_any(ApiKey.ALTER_PARTITION_REASSIGNMENTS, build, TIMEOUT_MS)
        rows = [row.error_code.name for topic in answer.responses for row in topic.partitions]
        return f"{answer.error_code.name} {rows}"

    async def rescue_forever(self, leaderless: Callable[[], list[TopicPartition]]) -> None:
        """Let anybody lead what has lost its records anyway: nobody else may ever be in sync again."""
        while True:
            await asyncio.sleep(2)
            for where in leaderless():
                await self._try("rescue", self._elect_anybody(where))

    async def _elect_anybody(self, where: TopicPartition) -> None:
        def build(types: MessageTypes) -> Any:
            topic = types.new("TopicPartitions", topic=where.topic, partitions=[where.partition])
            return types.message(election_type=1, topic_partitions=[topic], timeout=TIMEOUT_MS)

        async with self._desk.connect() as cluster:
            answer = await cluster.request_any(ApiKey.ELECT_LEADERS, build, TIMEOUT_MS)
        self._desk.trace.note(f"operator: anybody may lead {where}: {answer.error_code.name}")

    async def _elect(self) -> None:
        """Let preferred leaders lead, wherever they can."""
        async with self._desk.connect() as cluster:

            def build(types: MessageTypes) -> Any:
                return types.message(election_type=0, topic_partitions=None, timeout=TIMEOUT_MS)

            answer = await cluster.request_any(ApiKey.ELECT_LEADERS, build, TIMEOUT_MS)
        self._desk.trace.note(f"operator: preferred leaders: {answer.error_code.name}")
