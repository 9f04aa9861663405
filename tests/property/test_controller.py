"""The controller under any sequence of requests: the metadata stays sound, and records mean what was answered."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from crabka.controller.decisions import partition_change
from crabka.controller.decisions.alter_partition import IsrMember, IsrProposal, alter_partitions
from crabka.controller.decisions.broker_changes import fence_broker, unregister_broker
from crabka.controller.decisions.control_view import ControllerRules, ControlView
from crabka.controller.decisions.elect_leaders import balance_leaders, elect_leaders, elect_unclean_leaders
from crabka.controller.decisions.heartbeats import BrokerHeartbeat, decide_heartbeat
from crabka.controller.decisions.partitions import MorePartitions, create_partitions
from crabka.controller.decisions.reassignments import Reassignment, alter_reassignments, list_reassignments
from crabka.controller.decisions.registration import BrokerApplication, RegistrationTerms, admit_broker
from crabka.controller.decisions.replica_directories import ReplicaPlacement, assign_replicas
from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.controller.decisions.topics import create_topics
from crabka.metadata.cluster import VersionRange
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.metadata.requests import WantedTopic
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, defaults
from tests.support.replication import invariants
from tests.support.replication.invariants import BrokenReplicationError, check_image, check_step
from tests.support.scale import scaled

BROKERS = st.integers(1, 4)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True)
PARTITIONS = st.integers(0, 2)
FEATURES: dict[str, VersionRange] = dict(SUPPORTED_FEATURES)


def directories(broker_id: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=1000 + 10 * broker_id + each) for each in (0, 1)]


class ControllerMachine(RuleBasedStateMachine):
    """Four brokers, one topic, every request that a controller decides on."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = BrokerSessions(9000)
        self.terms = ControllerRules()
        self.image = cluster()

    @initialize(elr=st.booleans(), unclean=st.booleans(), min_isr=st.integers(1, 3))
    def begin(self, elr: bool, unclean: bool, min_isr: int) -> None:
        self.image = cluster(features=ELR_ON if elr else {})
        self.terms = ControllerRules(unclean_leader_election=unclean, min_insync_replicas=min_isr)
        for broker_id in range(1, 5):
            self.register(broker_id, clean=True)
            self.hear(broker_id, offset=10**6)
        wanted = WantedTopic("t", 3, 3)
        self.apply(create_topics(self.image, [wanted], defaults()).records)

    def apply(self, records: list[Any]) -> None:
        before = self.image
        self.image = applied(before, records)
        check_image(self.image)
        check_step(before, self.image)

    def hear(self, broker_id: int, **said: Any) -> None:
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            return
        offset = said.pop("offset", self.image.offset)
        heartbeat = BrokerHeartbeat(broker_id=broker_id, broker_epoch=broker.epoch, metadata_offset=offset, **said)
        self.sessions.touch(BrokerIncarnation(broker_id, broker.epoch), 0)
        outcome = decide_heartbeat(self.image, self.terms, self.sessions, heartbeat)
        self.apply(outcome.records)
        self.sessions.note(heartbeat, outcome.result, end_offset=self.image.offset)
        assert self.image.cluster.brokers[broker_id].fenced == outcome.result.is_fenced

    @rule(broker_id=BROKERS, clean=st.booleans())
    def register(self, broker_id: int, clean: bool) -> None:
        existing = self.image.cluster.brokers.get(broker_id)
        application = BrokerApplication(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=uuid.UUID(int=10**6 + self.image.offset),
            endpoints=(),
            features=FEATURES,
            log_dirs=directories(broker_id),
            rack="ab"[broker_id % 2],
            previous_broker_epoch=existing.epoch if existing is not None and clean else -1,
        )
        terms = RegistrationTerms(
            cluster_id="c", next_offset=self.image.offset + 1, has_live_session=False, rules=self.terms
        )
        outcome = admit_broker(self.image, application, terms)
        self.apply(outcome.records)
        broker = self.image.cluster.brokers[broker_id]
        assert (broker.epoch, broker.fenced) == (outcome.result, True)
        for partition in self.image.topics.by_name["t"].partitions.values() if self.image.topics.by_name else ():
            assert partition.leader != broker_id

    @rule(broker_id=BROKERS, want_shut_down=st.booleans(), want_fence=st.booleans())
    def heartbeat(self, broker_id: int, want_shut_down: bool, want_fence: bool) -> None:
        self.hear(broker_id, want_shut_down=want_shut_down, want_fence=want_fence)

    @rule(broker_id=BROKERS, lost=st.integers(0, 1))
    def lose_directory(self, broker_id: int, lost: int) -> None:
        directory = directories(broker_id)[lost]
        broker = self.image.cluster.brokers.get(broker_id)
        # A broker without any dir stops.
        if broker is None or len(broker.directories) < 2:
            return
        self.hear(broker_id, offline_log_dirs=[directory])
        for partition in self.image.topics.by_name["t"].partitions.values():
            if partition.leader == broker_id:
                assert partition.directory_of(broker_id) != directory

    @rule(broker_id=BROKERS)
    def serve(self, broker_id: int) -> None:
        self.hear(broker_id)

    @rule(broker_id=BROKERS)
    def expire(self, broker_id: int) -> None:
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is not None:
            self.apply(fence_broker(self.image, self.terms, broker_id, broker_epoch=broker.epoch).records)
            assert self.image.cluster.brokers[broker_id].fenced

    @rule(broker_id=BROKERS)
    def forget(self, broker_id: int) -> None:
        if broker_id in self.image.cluster.brokers:
            self.apply(unregister_broker(self.image, self.terms, broker_id).records)
        for partition in self.image.topics.by_name["t"].partitions.values():
            assert broker_id not in partition.elr

    @rule(index=PARTITIONS, isr=REPLICAS, lag=st.integers(0, 1))
    def alter(self, index: int, isr: list[int], lag: int) -> None:
        topic = self.image.topics.by_name["t"]
        old = topic.partitions[index]
        broker = self.image.cluster.brokers.get(old.leader)
        if broker is None:
            return
        wanted = IsrProposal(
            topic_id=topic.topic_id,
            partition_id=index,
            leader_epoch=old.leader_epoch,
            partition_epoch=old.partition_epoch - lag,
            isr=[IsrMember(each) for each in isr],
        )
        outcome = alter_partitions(self.image, self.terms, [wanted], broker_id=old.leader, broker_epoch=broker.epoch)
        self.apply(outcome.records)
        (answer,) = outcome.result
        if answer.error_code is ErrorCode.none:
            assert lag == 0
            assert answer.partition == self.image.topics.by_name["t"].partitions[index]

    @rule(index=PARTITIONS, replicas=st.none() | REPLICAS, pinned=st.booleans())
    def reassign(self, index: int, replicas: list[int] | None, pinned: bool) -> None:
        wanted = [Reassignment("t", index, replicas)]
        outcome = alter_reassignments(self.image, self.terms, wanted, allow_replication_factor_change=not pinned)
        self.apply(outcome.records)
        partition = self.image.topics.by_name["t"].partitions[index]
        if replicas is not None and outcome.result[0].verdict.error_code is ErrorCode.none:
            final = [each for each in partition.replicas if each not in partition.removing]
            assert final == replicas
        under_way = {each.partition_id for each in list_reassignments(self.image, [("t", index)])}
        assert (index in under_way) == bool(partition.adding or partition.removing)

    @rule(index=PARTITIONS, kind=st.integers(0, 1))
    def elect(self, index: int, kind: int) -> None:
        outcome = elect_leaders(self.image, self.terms, kind, [("t", index)])
        self.apply(outcome.records)
        if outcome.result[0].verdict.error_code is ErrorCode.none:
            assert self.image.topics.by_name["t"].partitions[index].leader >= 0

    @rule()
    def keep_house(self) -> None:
        # An election may bring a new replica into the ISR; the next turn finds its reassignment complete.
        for _ in range(3):
            self.apply(balance_leaders(self.image, self.terms).records)
            self.apply(elect_unclean_leaders(self.image, self.terms).records)
        assert balance_leaders(self.image, self.terms).records == []
        assert elect_unclean_leaders(self.image, self.terms).records == []

    @rule(broker_id=BROKERS, index=PARTITIONS, chosen=st.integers(0, 2))
    def place(self, broker_id: int, index: int, chosen: int) -> None:
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            return
        directory = [*directories(broker_id), uuid.UUID(int=5555)][chosen]
        placement = ReplicaPlacement(directory, self.image.topics.by_name["t"].topic_id, index)
        outcome = assign_replicas(self.image, self.terms, [placement], broker_id=broker_id, broker_epoch=broker.epoch)
        self.apply(outcome.records)
        if outcome.result == [ErrorCode.none]:
            assert self.image.topics.by_name["t"].partitions[index].directory_of(broker_id) == directory

    @rule(seed=st.integers(0, 99))
    def grow(self, seed: int) -> None:
        count = len(self.image.topics.by_name["t"].partitions)
        if count < 6:
            wanted = [MorePartitions("t", count + 1)]
            self.apply(create_partitions(self.image, wanted, random.Random(seed)).records)


EXAMPLES = settings(max_examples=scaled(60, 3000), stateful_step_count=40, deadline=None)


def test_the_metadata_stays_sound() -> None:
    run_state_machine_as_test(ControllerMachine, settings=EXAMPLES)


def elect_the_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlView, "is_active", lambda view, broker_id: broker_id in view.image.cluster.brokers)


def keep_eligible_what_is_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = partition_change._Draft.choose_eligible

    def careless(draft: Any) -> None:
        choose(draft)
        if draft._elr:
            draft._elr = tuple(sorted({*draft._old.elr, *draft._old.isr}))

    monkeypatch.setattr(partition_change._Draft, "choose_eligible", careless)


def drop_replicas_without_a_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_change._Draft, "_needs_new_epoch", lambda *_: False)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (elect_the_fenced, "only living brokers"),
        (keep_eligible_what_is_in_sync, "ELR apart from ISR"),
        (drop_replicas_without_a_new_epoch, "leader epoch rises when replicas go"),
    ],
)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The invariants read the real state.
    monkeypatch.setattr(invariants, "ControlView", type("HonestView", (ControlView,), dict(vars(ControlView))))
    plant(monkeypatch)
    with pytest.raises(BrokenReplicationError, match=invariant):
        run_state_machine_as_test(
            ControllerMachine, settings=settings(EXAMPLES, max_examples=500, phases=[Phase.generate], database=None)
        )
