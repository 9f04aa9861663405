"""The operator of a cluster: topics, moves of replicas, preferred leaders, controllers that leave and join."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.admin.cluster_types import ElectionKind
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.kraft.voters import VoterNode
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from tests.support.cluster_sim.clients import ClientDesk, TopicPlan, configs_of
from tests.support.cluster_sim.layout import LOG_DIRS

TIMEOUT_MS = 3_000


class Operator:
    """One change after the other, as far as the cluster lets it."""

    def __init__(
        self, desk: ClientDesk, broker_ids: list[int], topics: list[TopicPlan], controllers: list[VoterNode]
    ) -> None:
        self._desk = desk
        self._broker_ids = broker_ids
        self._topics = topics
        self._controllers = controllers
        self._rng = random.Random(desk.rng.getrandbits(64))
        self._passing: list[str] = []
        self._count = 0
        self.changes = 0

    async def create_topics(self) -> None:
        """Create the topics of the run, however often that takes."""
        for plan in self._topics:
            while not await self._try(f"create {plan.name}", partial(self._create, plan)):
                await asyncio.sleep(0.3)

    async def operate_forever(self) -> None:
        """Change things at random until cancelled."""
        deeds = [self._pass, self._pass, self._move, self._move, self._elect]
        if len(self._controllers) > 1:
            deeds.append(self._change_voters)
        while True:
            await asyncio.sleep(self._rng.uniform(0.5, 4))
            deed = self._rng.choice(deeds)
            await self._try(deed.__name__.strip("_"), deed)

    async def relocate_forever(self) -> None:
        """Move replicas between the log dirs of their brokers until cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.1, 1.5))
            await self._try("relocate", self._relocate)

    async def rescue_forever(self, leaderless: Callable[[], list[TopicPartition]]) -> None:
        """Let any replica lead what has lost its records anyway: no other may ever be in sync again."""
        while True:
            await asyncio.sleep(2)
            hopeless = leaderless()
            if hopeless:
                await self._try("rescue", partial(self._elect_anybody, hopeless))

    async def _try(self, what: str, change: Callable[[Admin], Awaitable[str]]) -> bool:
        """Carry out a change; return whether there is nothing left to do."""
        try:
            async with self._desk.connect() as cluster:
                outcome = await change(Admin(cluster, TIMEOUT_MS))
        except OperationError as error:
            self._desk.trace.note(f"operator: {what}: {error}")
            return error.error_code is ErrorCode.topic_already_exists
        except CrabkaError as error:
            self._desk.trace.note(f"operator: {what}: {error}")
            return False
        self._desk.trace.note(f"operator: {outcome}")
        self.changes += 1
        return True

    async def _create(self, plan: TopicPlan, admin: Admin) -> str:
        topic = NewTopic(plan.name, plan.partitions, plan.replication_factor, configs_of(plan))
        await admin.create_topics([topic])
        return f"{plan.name} is created"

    async def _pass(self, admin: Admin) -> str:
        """Create or delete a topic without readers."""
        if self._passing and self._rng.random() < 0.6:
            name = self._passing.pop(0)
            await admin.delete_topics([name])
            return f"{name} is deleted"
        self._count += 1
        name = f"passing-{self._count}"
        self._passing.append(name)
        return await self._create(TopicPlan(name, 2, min(2, len(self._broker_ids))), admin)

    async def _move(self, admin: Admin) -> str:
        """Move a partition to other brokers, or give up a move that is under way."""
        plan = self._rng.choice(self._topics)
        where = self._rng.choice(plan.places)
        replicas = None
        if self._rng.random() < 0.85:
            replicas = self._rng.sample(self._broker_ids, min(plan.replication_factor, len(self._broker_ids)))
        await admin.replicas.reassign({where: replicas})
        return f"{where} moves to {replicas}"

    async def _relocate(self, _admin: Admin) -> str:
        """Move a replica to a log dir of its broker."""
        where = self._rng.choice(self._rng.choice(self._topics).places)
        broker_id, path = self._rng.choice(self._broker_ids), self._rng.choice(LOG_DIRS)

        def build(types: MessageTypes) -> Any:
            topics = [types.new("AlterReplicaLogDirTopic", name=where.topic, partitions=[where.partition])]
            return types.message(dirs=[types.new("AlterReplicaLogDir", path=path, topics=topics)])

        async with self._desk.connect() as cluster:
            connection = await cluster.connection(broker_id)
            answer = await connection.request(ApiKey.ALTER_REPLICA_LOG_DIRS, build, TIMEOUT_MS)
        error_code = answer.results[0].partitions[0].error_code
        return f"{where} goes to {path} of broker {broker_id}: {error_code.name}"

    async def _elect(self, admin: Admin) -> str:
        """Let preferred leaders lead, wherever they can."""
        elected = await admin.replicas.elect_leaders(ElectionKind.PREFERRED)
        return f"preferred leaders of {[str(where) for where, error in elected.items() if error is None]}"

    async def _elect_anybody(self, hopeless: list[TopicPartition], admin: Admin) -> str:
        await admin.replicas.elect_leaders(ElectionKind.UNCLEAN, hopeless)
        return f"anybody may lead {[str(where) for where in hopeless]}"

    async def _change_voters(self, admin: Admin) -> str:
        """Take one controller out of the quorum, or let the one that is out join again."""
        quorum = await admin.cluster.describe_quorum()
        present = {voter.node_id for voter in quorum.voters}
        absent = [controller for controller in self._controllers if controller.voter_id not in present]
        if absent:
            await admin.cluster.add_raft_voter(absent[0].voter_id, absent[0].directory_id, absent[0].endpoints)
            return f"controller {absent[0].voter_id} is a voter again"
        leaving = self._rng.choice(self._controllers)
        await admin.cluster.remove_raft_voter(leaving.voter_id, leaving.directory_id)
        return f"controller {leaving.voter_id} is no voter any more"
