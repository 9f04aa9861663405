"""A cluster of the model under a random schedule, and what must be true of it whatever happens.

A record is committed as soon as the high watermark of any node that believes to lead has passed it: consumers may have
seen it. From then on every replica that the controller may elect cleanly must have it.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from typing import Any

from crabka.broker.replication.isr_state import ProposalFate
from crabka.broker.replication.leader_state import ReplicationLimits
from crabka.controller.decisions.alter_partition import IsrMember, IsrProposal, alter_partitions
from crabka.controller.decisions.broker_changes import fence_broker
from crabka.controller.decisions.control_view import DEFAULT_RULES
from crabka.controller.decisions.elect_leaders import balance_leaders
from crabka.controller.decisions.heartbeats import BrokerHeartbeat, decide_heartbeat
from crabka.controller.decisions.partition_change import RECOVERING
from crabka.controller.decisions.reassignments import Reassignment, alter_reassignments
from crabka.controller.decisions.registration import BrokerApplication, RegistrationTerms, admit_broker
from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.errors import OperationError
from crabka.metadata.cluster import VersionRange
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, with_partitions
from tests.support.replication.invariants import check, check_image, check_step
from tests.support.replication.node import AlterExchange, ModelNode, Record

BROKERS = (1, 2, 3, 4)
TOPIC = "t"
FEATURES: dict[str, VersionRange] = dict(SUPPORTED_FEATURES)


@dataclass(frozen=True)
class Conditions:
    """What a run is like."""

    elr: bool = True
    min_isr: int = 2
    # Whether a crash takes records that were never synced; without ELR Kafka makes no promise then.
    loses_power: bool = True


class ReplicationWorld:
    """Four brokers, one controller, one partition."""

    def __init__(self, seed: int, conditions: Conditions) -> None:
        self.rng = random.Random(seed)
        self.conditions = conditions
        self.now_ms = 0
        image = cluster(*BROKERS, features=ELR_ON if conditions.elr else {})
        first = {"replicas": (1, 2, 3), "leader_epoch": 0, "partition_epoch": 0}
        self.image = with_partitions(image, TOPIC, first, min_insync_replicas=str(conditions.min_isr))
        self.sessions = BrokerSessions(9000)
        limits = ReplicationLimits(conditions.min_isr, max_lag_ms=800)
        self.nodes = {node_id: ModelNode(node_id, limits, self.image) for node_id in BROKERS}
        for node in self.nodes.values():
            node.learn(self.image, 0)
        self.committed: list[Record] = []
        self.next_value = 0
        self.is_over = False

    def run(self, steps: int) -> int:
        """Take random steps until an election had to be unclean; return how many records were committed."""
        acts = [
            (self.work, 8),
            (self.produce, 10),
            (self.ask, 26),
            (self.answer, 26),
            (self.learn, 14),
            (self.propose, 8),
            (self.control, 12),
            (self.heartbeat, 12),
            (self.expire, 1),
            (self.crash, 1),
            (self.restart, 5),
            (self.balance, 1),
            (self.reassign, 1),
        ]
        chosen = self.rng.choices([act for act, _ in acts], [weight for _, weight in acts], k=steps)
        for act in chosen:
            self.now_ms += self.rng.randrange(20)
            act(self.nodes[self.rng.choice(BROKERS)])
            if self.is_over:
                break
            self.check()
        return len(self.committed)

    # Brokers.

    def work(self, _node: ModelNode) -> None:
        """Everybody gets a turn at everything that is needed to get on."""
        acts = [self.produce, self.ask, self.answer, self.learn, self.propose, self.control, self.heartbeat]
        for node in self.rng.sample(list(self.nodes.values()), len(self.nodes)):
            for act in acts:
                act(node)
                if self.is_over:
                    return
                self.check()

    def produce(self, node: ModelNode) -> None:
        if node.is_running and node.produce(self.next_value) is not None:
            self.next_value += 1
            node.advance(self.now_ms)

    def ask(self, node: ModelNode) -> None:
        following = node.following
        if not node.is_running or following is None or node.fetch is not None or not following.is_ready(self.now_ms):
            return
        leader = self._leader_of(node)
        if leader is not None:
            node.fetch = leader.serve(node, self.now_ms)

    def answer(self, node: ModelNode) -> None:
        if self.rng.random() < 0.1:
            node.fetch = None
            return
        leader = self._leader_of(node)
        node.receive(self.now_ms, None if leader is None else leader.log.log_end_offset)

    def learn(self, node: ModelNode) -> None:
        if node.is_running:
            node.learn(self.image, self.now_ms)
            node.advance(self.now_ms)

    def propose(self, node: ModelNode) -> None:
        if node.is_running and node.propose(self.now_ms) and self.rng.random() < 0.3:
            # A request may be late by much: whom it names can have died and come back meanwhile.
            node.alter_held_until_ms = self.now_ms + self.rng.randrange(3000)

    def crash(self, node: ModelNode) -> None:
        if not node.is_running:
            return
        node.stop()
        node.clean_epoch = -1
        kept = node.log.log_end_offset
        if self.conditions.loses_power:
            kept = self.rng.randint(0, kept)
        node.log.truncate(kept)
        node.log.high_watermark = self.rng.randint(0, node.log.high_watermark)

    def restart(self, node: ModelNode) -> None:
        if node.is_running:
            return
        application = BrokerApplication(
            broker_id=node.node_id,
            cluster_id="c",
            incarnation_id=uuid.UUID(int=self.rng.getrandbits(127)),
            endpoints=(),
            features=FEATURES,
            log_dirs=[uuid.UUID(int=1000 + node.node_id)],
            previous_broker_epoch=node.clean_epoch,
        )
        terms = RegistrationTerms(cluster_id="c", next_offset=self.image.offset + 1, has_live_session=False)
        self._apply(admit_broker(self.image, application, terms).records)
        node.is_running = True
        # The registration is read before anything is served.
        node.learn(self.image, self.now_ms)

    # The controller.

    def control(self, node: ModelNode) -> None:
        """An ISR change gets one step further, is answered late, or is lost and sent again."""
        exchange = node.alter
        if exchange is None or not node.is_running or self.now_ms < node.alter_held_until_ms:
            return
        if exchange.error_code is None:
            self._decide(node, exchange)
        elif node.leading is None:
            node.alter = None
        else:
            decision = node.leading.isr_state.answered(exchange.proposal, exchange.error_code, exchange.partition)
            exchange.error_code = exchange.partition = None
            if decision is not ProposalFate.RETRY:
                node.alter = None
            node.advance(self.now_ms)

    def _decide(self, node: ModelNode, exchange: AlterExchange) -> None:
        wanted = IsrProposal(
            topic_id=self.image.topics.by_name[TOPIC].topic_id,
            partition_id=0,
            leader_epoch=exchange.leader_epoch,
            partition_epoch=exchange.proposal.partition_epoch,
            isr=[IsrMember(*member) for member in exchange.members],
        )
        try:
            outcome = alter_partitions(
                self.image, DEFAULT_RULES, [wanted], broker_id=node.node_id, broker_epoch=node.broker_epoch
            )
        except OperationError as error:
            exchange.error_code = error.error_code
            return
        self._apply(outcome.records)
        (result,) = outcome.result
        exchange.error_code, exchange.partition = result.error_code, result.partition
        if self.rng.random() < 0.2:
            # The answer is lost.
            exchange.error_code, exchange.partition = ErrorCode.request_timed_out, None

    def heartbeat(self, node: ModelNode) -> None:
        if not node.is_running:
            return
        node.wants_stop = node.wants_stop or self.rng.random() < 0.004
        heartbeat = BrokerHeartbeat(
            broker_id=node.node_id,
            broker_epoch=node.broker_epoch,
            metadata_offset=node.image.offset,
            want_shut_down=node.wants_stop,
        )
        try:
            outcome = decide_heartbeat(self.image, DEFAULT_RULES, self.sessions, heartbeat)
        except OperationError:
            return
        self.sessions.touch(BrokerIncarnation(node.node_id, node.broker_epoch), self.now_ms)
        self._apply(outcome.records)
        self.sessions.note(heartbeat, outcome.result, end_offset=self.image.offset)
        if outcome.result.should_shut_down:
            node.clean_epoch = node.broker_epoch
            node.stop()

    def expire(self, node: ModelNode) -> None:
        epoch = self.image.cluster.brokers[node.node_id].epoch
        self._apply(fence_broker(self.image, DEFAULT_RULES, node.node_id, broker_epoch=epoch).records)

    def balance(self, _node: ModelNode) -> None:
        self._apply(balance_leaders(self.image, DEFAULT_RULES).records)

    def reassign(self, _node: ModelNode) -> None:
        target = None if self.rng.random() < 0.2 else self.rng.sample(BROKERS, 3)
        self._apply(alter_reassignments(self.image, DEFAULT_RULES, [Reassignment(TOPIC, 0, target)]).records)

    # What must hold.

    def check(self) -> None:
        """Commit what leaders have passed, and look for it where it must be."""
        for node in self.nodes.values():
            if node.leading is not None:
                self._commit(node.log.records[: node.log.high_watermark])
        partition = partition_of(self.image)
        for node_id in {*partition.isr, *partition.elr}:
            node = self.nodes[node_id]
            # One that does not run, or that has to register first, has to pass the controller before it leads.
            is_current = node.is_running and node.broker_epoch == self.image.cluster.brokers[node_id].epoch
            if is_current:
                held = node.log.records[: len(self.committed)]
                check(held == self.committed, "committed records stay", (node_id, partition, held, self.committed))

    def _commit(self, records: list[Record]) -> None:
        shared = min(len(records), len(self.committed))
        check(records[:shared] == self.committed[:shared], "leaders agree on committed records", (records, shared))
        self.committed += records[shared:]

    def _apply(self, records: list[Any]) -> None:
        before = self.image
        self.image = applied(before, records)
        check_image(self.image)
        check_step(before, self.image)
        if partition_of(self.image).leader_recovery_state == RECOVERING:
            # The last replica that had everything was unclean: from here on records may be lost by design.
            self.is_over = True

    def _leader_of(self, node: ModelNode) -> ModelNode | None:
        leader_id = partition_of(node.image).leader
        leader = self.nodes.get(leader_id)
        return leader if leader is not None and leader.is_running else None
