"""A consumer group under any sequence of joins, reports, lost answers, pauses, deaths, failed appends and restarts.

A partition is owned by a member from the moment on at which it reads an answer that assigns it until it reports that it
does not own it any more, or believes itself out of the group. It never has two owners, and when the members that live
follow their assignment every partition has one.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from crabka.broker.groups.consumer import assignment
from crabka.broker.groups.consumer.assignors.spec import Partitions
from crabka.broker.groups.consumer.member import CurrentAssignment, ReconciliationState
from crabka.broker.groups.consumer.messages import ConsumerHeartbeatResult
from crabka.broker.groups.consumer.reconcile import Goal, reconcile
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import SETTINGS, ConsumerCore, catalog_of, topic_id

NAMES = st.sampled_from(["a", "b", "c", "s"])
Place = tuple[uuid.UUID, int]


class Owner:
    """What one client believes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance_id = "static" if name == "s" else None
        self.process = 0
        self.epoch = 0
        self.owned: set[Place] = set()
        # Its assignment; it releases before it takes.
        self.reported: set[Place] = set()
        self.answered_ms = 0

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.process}"

    def forget(self) -> None:
        self.epoch = 0
        self.owned.clear()
        self.reported.clear()


class ConsumerMachine(RuleBasedStateMachine):
    """Clients that come, go, die, pause and retry."""

    def __init__(self) -> None:
        super().__init__()
        self.core = ConsumerCore(catalog_of(t=3, u=2))
        self.clients = {name: Owner(name) for name in "abcs"}
        self.highest_epoch = 0

    def _send(self, client: Owner, *, is_lost: bool = False) -> ConsumerHeartbeatResult | None:
        # It reports what it owns before it takes what is new.
        client.owned &= client.reported
        owned: dict[uuid.UUID, set[int]] = {}
        for each, partition in client.owned:
            owned.setdefault(each, set()).add(partition)
        fields: dict[str, Any] = {"owned": {each: frozenset(numbers) for each, numbers in owned.items()}}
        if client.epoch == 0:
            fields = {"owned": {}, "topic_names": ("t", "u")}
        self.core.answers.clear()
        answer = self.core.post(client.member_id, client.epoch, instance_id=client.instance_id, **fields)
        if answer is None or is_lost:
            return None
        client.answered_ms = self.core.now_ms
        if answer.error_code in (
            ErrorCode.fenced_member_epoch,
            ErrorCode.unknown_member_id,
            ErrorCode.fenced_instance_id,
            ErrorCode.group_id_not_found,
        ):
            client.forget()
        elif answer.error_code is ErrorCode.none:
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                client.reported = {(each, number) for each, numbers in answer.assignment.items() for number in numbers}
            client.owned = set(client.reported) if client.owned <= client.reported else client.owned
        return answer

    @rule(name=NAMES, is_lost=st.booleans())
    def report(self, name: str, *, is_lost: bool) -> None:
        self._send(self.clients[name], is_lost=is_lost)

    @rule(name=NAMES)
    def die(self, name: str) -> None:
        """The process ends without a word; the next one knows nothing."""
        client = self.clients[name]
        client.forget()
        client.process += 1

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        client = self.clients[name]
        if client.epoch > 0:
            self.core.post(client.member_id, -2 if client.instance_id else -1, instance_id=client.instance_id)
            client.forget()
            client.process += 1

    @rule(milliseconds=st.sampled_from([1, 3_000, 9_000, 70_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.core.pass_time(milliseconds)
        for client in self.clients.values():
            # A client that had no answer for a session knows that it is out (KIP-848).
            if self.core.now_ms - client.answered_ms >= SETTINGS.session_timeout_ms:
                client.forget()

    @rule()
    def restart(self) -> None:
        self.core.holds_stores = False
        self.core.finish_stores()
        before = self.core.group.data
        self.core.restart()
        after = self.core.group.data
        assert after.members == before.members
        assert after.target == before.target
        assert after.owners == before.owners
        assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)

    @rule(name=NAMES, error_code=st.sampled_from([ErrorCode.coordinator_not_available, ErrorCode.not_coordinator]))
    def fail_to_store(self, name: str, error_code: ErrorCode) -> None:
        before = self.core.group.data.copy()
        self.core.holds_stores = True
        self._send(self.clients[name], is_lost=True)
        stored = bool(self.core.waiting)
        self.core.finish_stores(error_code)
        self.core.holds_stores = False
        if stored:
            assert self.core.group.data.members == before.members
            assert self.core.group.data.owners == before.owners
        if self.core.group.is_dead:
            # It never was: the next member makes it anew.
            self.core.restart()

    @rule(names=st.sets(NAMES, min_size=1))
    def settle(self, names: set[str]) -> None:
        """Living members report until nothing changes: then every partition has an owner."""
        for _ in range(12):
            for name in sorted(names):
                self._send(self.clients[name])
            self.pass_time(3_000)
        owned = [place for name in names for place in self.clients[name].owned]
        assert sorted(owned) == sorted(
            [(topic_id(0), each) for each in range(3)] + [(topic_id(1), 0), (topic_id(1), 1)]
        )

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [place for client in self.clients.values() for place in client.owned]
        assert len(owned) == len(set(owned)), owned

    @invariant()
    def epochs_rise(self) -> None:
        data = self.core.group.data
        assert data.epoch >= data.assignment_epoch
        for member in data.members.values():
            assert member.current.epoch <= data.assignment_epoch
        assert set(data.static_members.values()) <= set(data.members)
        assert set(data.target) <= set(data.members)


EXAMPLES = settings(max_examples=100, stateful_step_count=30, deadline=None, report_multiple_bugs=False)
# Bugs that need a few steps in the right order; the same ones every time.
HUNT = settings(EXAMPLES, phases=[Phase.generate], max_examples=2_000, derandomize=True)


def test_a_consumer_group_keeps_its_promises() -> None:
    run_state_machine_as_test(ConsumerMachine, settings=EXAMPLES)


@pytest.fixture
def no_client_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: partitions are given out though others have them."""

    def careless(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
        return reconcile(current, goal._replace(is_free=lambda _topic, _partition: True), owned)

    monkeypatch.setattr(assignment, "reconcile", careless)


@pytest.fixture
def revocations_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: members are taken to have released what they were asked to."""

    def hasty(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
        if current.state is ReconciliationState.STABLE:
            owned = {}
        return reconcile(current, goal, owned)

    monkeypatch.setattr(assignment, "reconcile", hasty)


@pytest.mark.parametrize("planted", ["no_client_waits", "revocations_are_believed"])
def test_a_planted_bug_is_caught(planted: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(planted)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ConsumerMachine, settings=HUNT)
