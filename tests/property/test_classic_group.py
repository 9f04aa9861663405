"""A classic group under any sequence of joins, syncs, heartbeats, deaths, failed appends and pauses.

The model hands every partition to exactly one member of the generation that it syncs, as the leader of a real group
does. Whatever happens, two members of a stable group that both believe in the current generation never share one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import Action, AssignmentStored, JoinResult, MemberIdentity, SyncResult
from crabka.broker.groups.rebalance import Rebalance
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import CoreDriver

PARTITIONS = 2
NAMES = st.sampled_from(["a", "b", "c", "d"])


class Believer:
    """What one client believes: its id, its generation, what it owns, and which of its requests wait."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance_id = f"i-{name}" if name in "ab" else None
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.members: list[str] = []
        self.waits_for: tuple[str, int] | None = None


class GroupMachine(RuleBasedStateMachine):
    """Clients that come, go, die, pause and retry."""

    def __init__(self) -> None:
        super().__init__()
        self.core = CoreDriver(initial_rebalance_delay_ms=50)
        self.clients = {name: Believer(name) for name in "abcd"}
        self.requests = 0
        self.highest_generation = 0

    def _reply(self, kind: str, client: Believer) -> tuple[str, int]:
        self.requests += 1
        client.waits_for = (kind, self.requests)
        return client.waits_for

    def _read_answers(self) -> None:
        for client in self.clients.values():
            if client.waits_for is None or client.waits_for not in self.core.answers:
                continue
            answer = self.core.answers[client.waits_for]
            client.waits_for = None
            if answer.error_code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                client.member_id, client.owned, client.generation = "", frozenset(), -1
            elif isinstance(answer, JoinResult) and answer.error_code in (
                ErrorCode.none,
                ErrorCode.member_id_required,
            ):
                client.member_id, client.generation = answer.member_id, answer.generation
                client.owned = frozenset()
                client.members = [member.member_id for member in answer.members]
            elif isinstance(answer, SyncResult) and answer.error_code is ErrorCode.none:
                client.owned = frozenset(answer.assignment)

    @rule(name=NAMES, known=st.booleans())
    def join(self, name: str, *, known: bool) -> None:
        client = self.clients[name]
        if not known:
            # The process died and comes back without its id; what it owned it does not own any more.
            client.member_id, client.owned, client.generation = "", frozenset(), -1
        client.owned = frozenset()
        self.core.join(
            self._reply("join", client),
            client.member_id,
            instance_id=client.instance_id,
            new_member_id=f"{name}-{self.requests}",
            requires_known_member_id=True,
        )
        self._read_answers()

    @rule(name=NAMES)
    def sync(self, name: str) -> None:
        client = self.clients[name]
        if client.generation < 0:
            return
        shares: dict[str, list[int]] = {member: [] for member in client.members}
        for partition in range(PARTITIONS if shares else 0):
            # The newest member comes first, so that older ones lose what they had.
            shares[client.members[-1 - partition % len(client.members)]].append(partition)
        self.core.sync(
            self._reply("sync", client),
            client.member_id,
            {member: bytes(share) for member, share in shares.items()},
            generation=client.generation,
            instance_id=client.instance_id,
        )
        self._read_answers()

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        client = self.clients[name]
        self.requests += 1
        reply = ("heartbeat", self.requests)
        reported = self.core.heartbeat(reply, client.member_id, client.generation, instance_id=client.instance_id)
        if reported in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.illegal_generation):
            client.owned = frozenset()
        self._read_answers()

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        client = self.clients[name]
        self.requests += 1
        self.core.leave(("leave", self.requests), MemberIdentity(client.member_id, client.instance_id))
        self._read_answers()
        client.member_id, client.owned, client.generation = "", frozenset(), -1

    @rule(milliseconds=st.sampled_from([1, 60, 4000, 10_000, 70_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.core.pass_time(milliseconds)
        self._read_answers()

    @rule(names=st.sets(NAMES, min_size=1))
    def settle(self, names: set[str]) -> None:
        """Clients do what they should for a while, which is how groups become stable."""
        self.core.holds_stores = False
        self.core.finish_stores()
        for _ in range(3):
            members = self.core.group.membership.members
            for name, client in self.clients.items():
                if client.waits_for is None and (name in names or client.member_id in members):
                    self.join(name, known=True)
            self.pass_time(60)
        for name, client in self.clients.items():
            if client.waits_for is None and client.generation == self.core.group.membership.generation:
                self.sync(name)

    @rule(holds=st.booleans())
    def hold_stores(self, *, holds: bool) -> None:
        self.core.holds_stores = holds

    @precondition(lambda self: self.core.waiting)
    @rule(error_code=st.sampled_from([ErrorCode.none, ErrorCode.none, ErrorCode.coordinator_not_available]))
    def finish_stores(self, error_code: ErrorCode) -> None:
        if any(not isinstance(each.done, AssignmentStored) for each in self.core.waiting):
            error_code = ErrorCode.none
        self.core.finish_stores(error_code)
        self._read_answers()

    @invariant()
    def generations_rise(self) -> None:
        assert self.core.group.membership.generation >= self.highest_generation
        self.highest_generation = self.core.group.membership.generation

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.core.group.membership
        if group.state is not GroupState.STABLE:
            return
        owned = [
            partition
            for client in self.clients.values()
            if client.generation == group.generation and client.member_id in group.members
            for partition in client.owned
        ]
        assert len(owned) == len(set(owned)), owned
        stored = [partition for member in group.members.values() for partition in member.assignment]
        assert len(stored) == len(set(stored)), stored

    @invariant()
    def the_books_are_right(self) -> None:
        group = self.core.group.membership
        assert group.leader_id is None if not group.members else group.leader_id in group.members
        assert set(group.static_members.values()) <= set(group.members)
        assert not set(group.pending_members) & set(group.members)
        assert group.pending_sync <= set(group.members)
        assert group.state is not GroupState.EMPTY or not group.members
        assert group.deadline_ms <= self.core.group._rebalance.first_deadline_ms()

    @invariant()
    def everybody_is_answered_once(self) -> None:
        waiting = {
            reply
            for member in self.core.group.membership.members.values()
            for reply in (member.awaiting_join, member.awaiting_sync)
            if reply is not None
        }
        assert not waiting & set(self.core.answers)


EXAMPLES = settings(max_examples=100, stateful_step_count=30, deadline=None, report_multiple_bugs=False)


def test_a_group_keeps_its_promises() -> None:
    run_state_machine_as_test(GroupMachine, settings=EXAMPLES)


@pytest.fixture
def assignments_stick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: a member that gets nothing keeps what it had in an earlier generation."""
    honest = Rebalance.assignment_stored

    def dishonest(self: Rebalance, event: AssignmentStored, now_ms: int, out: list[Action]) -> None:
        kept = {member.member_id: member.assignment for member in self._group.members.values()}
        shares = {member_id: share or kept.get(member_id, b"") for member_id, share in event.assignments.items()}
        honest(self, replace(event, assignments=shares), now_ms, out)

    monkeypatch.setattr(Rebalance, "assignment_stored", dishonest)


@pytest.mark.usefixtures("assignments_stick")
def test_a_planted_bug_is_caught() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(GroupMachine, settings=settings(EXAMPLES, phases=[Phase.generate]))
