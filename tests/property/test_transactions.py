"""A transactional id under any sequence of requests, retries, lost answers, failed appends, timeouts and restarts.

Whatever happens: all partitions receive one outcome of a transaction, an outcome that was reported is the one that they
hear of, and a producer that was fenced by another one never succeeds again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from crabka.broker.transactions import transaction as core_module
from crabka.broker.transactions.messages import (
    Action,
    AddPartitions,
    AnswerProducer,
    CheckExpiry,
    CheckTimeout,
    EndTransaction,
    Event,
    Forget,
    InitProducer,
    MarkersWritten,
    NeedProducerId,
    ProducerAndEpoch,
    ProducerAnswer,
    Reply,
    Resume,
    RetryCompletion,
    SendMarkers,
    StoreSnapshot,
    failed,
)
from crabka.broker.transactions.state import ENDED, TransactionSnapshot, TransactionState
from crabka.broker.transactions.transaction import Transaction
from crabka.broker.transactions.transitions import new_snapshot
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode

PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))
TIMEOUT_MS, EXPIRATION_MS = 1_000, 100_000
CLIENTS = st.sampled_from("ab")
NO_PRODUCER = ProducerAndEpoch(-1, -1)
# What becomes of the record of a request: mostly it is stored before anything else happens.
OUTCOMES = st.sampled_from(["stored", "stored", "stored", "later", "failed"])


class Asked:
    """A request that waits for its answer."""

    def __init__(self, client: str, identity: ProducerAndEpoch, event: str, *, commit: bool = False) -> None:
        self.client = client
        self.identity = identity
        self.event = event
        self.commit = commit
        # The transaction that the request decided, once that is known.
        self.number = -1


class TransactionMachine(RuleBasedStateMachine):
    """Two instances of one application, a coordinator that dies and comes back, partitions that take markers."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.ids = 7
        self.core: Transaction | None = None
        # What survives a restart: snapshots with the number of the transaction that they are about.
        self.log: list[tuple[TransactionSnapshot | None, int]] = []
        self.number = 0
        self.numbers = 0
        self.persist: StoreSnapshot | None = None
        self.markers: list[tuple[SendMarkers, int]] = []
        self.retries: list[MarkersWritten] = []
        self.clients = dict.fromkeys("ab", NO_PRODUCER)
        self.written: dict[int, set[bool]] = {}
        self.received: dict[int, bool] = {}
        self.fence = NO_PRODUCER
        self.lose_answers = False

    # -- the shell -----------------------------------------------------------------------------------------------

    @initialize(epoch=st.sampled_from([-1, 3, 32764]), version=st.sampled_from([0, 2]))
    def begin(self, epoch: int, version: int) -> None:
        self.version = version
        if epoch >= 0:
            snapshot = replace(new_snapshot(7, TIMEOUT_MS, self.now_ms), producer_epoch=epoch)
            self.log.append((snapshot, 0))
            self.core = Transaction("id", snapshot)

    def step(self, event: Event) -> None:
        assert self.core is not None
        for action in self.core.step(event, self.now_ms):
            self.carry_out(action)

    def carry_out(self, action: Action) -> None:
        match action:
            case AnswerProducer(reply, answer):
                self.answer(reply, answer)
            case StoreSnapshot(snapshot):
                assert self.persist is None
                self.persist = action
                self.note_number(snapshot, action.done.reply)
            case NeedProducerId(event):
                self.ids += 1
                self.step(replace(event, new_producer_id=self.ids))
            case SendMarkers():
                self.markers.append((action, self.number))
            case RetryCompletion(event):
                self.retries.append(event)
            case Forget():
                self.forget()
            case _:
                pass

    def forget(self) -> None:
        # The next client gets an unused id, even if it sends one.
        self.core, self.fence = None, NO_PRODUCER

    def note_number(self, target: TransactionSnapshot, reply: Reply) -> None:
        assert self.core is not None
        begins = self.core.current.state in ENDED and target.state not in ENDED
        if begins:
            self.numbers += 1
        self.next_number = self.numbers if begins else self.number
        if reply is not None:
            reply.number = self.next_number

    def answer(self, asked: Asked, answer: ProducerAnswer) -> None:
        if answer.error_code is not ErrorCode.none:
            return
        if asked.event == "init" and asked.identity == NO_PRODUCER:
            self.fence = ProducerAndEpoch(answer.producer_id, answer.producer_epoch)
        else:
            assert asked.identity >= self.fence, f"{asked.event} of {asked.identity} succeeds after {self.fence}"
        if asked.event == "end":
            number = asked.number if asked.number >= 0 else self.number
            assert self.received.setdefault(number, asked.commit) is asked.commit
        if not self.lose_answers and (asked.event == "init" or (asked.event == "end" and self.version)):
            self.clients[asked.client] = ProducerAndEpoch(answer.producer_id, answer.producer_epoch)

    # -- clients -------------------------------------------------------------------------------------------------

    def decide(self, outcome: str) -> None:
        if self.persist is not None and outcome == "stored":
            self.append()
        elif self.persist is not None and outcome == "failed":
            self.append_fails(written=False)

    @rule(client=CLIENTS, goes_on=st.booleans(), lost=st.booleans(), outcome=OUTCOMES)
    def init(self, client: str, goes_on: bool, lost: bool, outcome: str) -> None:
        self.lose_answers = lost
        identity = self.clients[client] if goes_on else NO_PRODUCER
        if self.core is None:
            self.ids += 1
            self.core = Transaction("id", new_snapshot(self.ids, TIMEOUT_MS, self.now_ms))
        self.step(
            InitProducer(
                reply=Asked(client, identity, "init"),
                timeout_ms=TIMEOUT_MS,
                expected=None if identity == NO_PRODUCER else identity,
                server_version=self.version,
            )
        )
        self.decide(outcome)

    @precondition(lambda self: self.core is not None)
    @rule(client=CLIENTS, count=st.integers(1, 2), outcome=OUTCOMES)
    def add(self, client: str, count: int, outcome: str) -> None:
        identity = self.clients[client]
        asked = Asked(client, identity, "add")
        self.step(AddPartitions(reply=asked, producer=identity, partitions=PLACES[:count], client_version=self.version))
        self.decide(outcome)

    @precondition(lambda self: self.core is not None)
    @rule(client=CLIENTS, commit=st.booleans(), lost=st.booleans(), outcome=OUTCOMES)
    def end(self, client: str, commit: bool, lost: bool, outcome: str) -> None:
        self.lose_answers = lost
        identity = self.clients[client]
        asked = Asked(client, identity, "end", commit=commit)
        self.step(EndTransaction(reply=asked, producer=identity, commit=commit, client_version=self.version))
        self.decide(outcome)

    # -- the machine ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.persist is not None)
    @rule()
    def append(self) -> None:
        assert self.persist is not None
        persist, self.persist = self.persist, None
        self.write(persist)
        self.number = self.next_number
        self.step(persist.done)

    @precondition(lambda self: self.persist is not None)
    @rule(written=st.booleans())
    def append_fails(self, written: bool) -> None:
        assert self.persist is not None
        persist, self.persist = self.persist, None
        if written:
            # Not known: the record may be found after a restart.
            self.write(persist)
        self.step(failed(persist.done, ErrorCode.coordinator_not_available))

    def write(self, persist: StoreSnapshot) -> None:
        is_dead = persist.snapshot.state is TransactionState.DEAD
        self.log.append((None if is_dead else persist.snapshot, self.next_number))

    @precondition(lambda self: self.markers)
    @rule(count=st.integers(1, 9), times=st.integers(1, 2), reported=st.booleans())
    def write_markers(self, count: int, times: int, reported: bool) -> None:
        for sent, number in self.markers[:count]:
            commit = sent.snapshot.state is TransactionState.PREPARE_COMMIT
            self.written.setdefault(number, set()).add(commit)
            assert len(self.written[number]) == 1, f"transaction {number} is committed and aborted"
            assert self.received.get(number, commit) is commit, f"transaction {number} ends otherwise than reported"
            for _ in range(times if reported and self.core is not None else 0):
                self.step(MarkersWritten(ProducerAndEpoch(sent.snapshot.producer_id, sent.snapshot.producer_epoch)))

    @precondition(lambda self: self.retries and self.core is not None)
    @rule()
    def retry(self) -> None:
        self.step(self.retries.pop(0))

    @rule()
    def restart(self) -> None:
        self.persist, self.retries = None, []
        self.markers = []
        last, self.number = self.log[-1] if self.log else (None, 0)
        if last is None:
            self.forget()
        else:
            self.core = Transaction("id", replace(last, last_producer_epoch=-1))
            self.step(Resume())

    @rule(passed_ms=st.sampled_from([10, TIMEOUT_MS, EXPIRATION_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms + 1
        if self.core is not None:
            self.step(CheckTimeout(server_version=self.version))
        if self.core is not None:
            self.step(CheckExpiry(expiration_ms=EXPIRATION_MS))


EXAMPLES = settings(max_examples=150, stateful_step_count=40, deadline=None, report_multiple_bugs=False)


def test_outcomes_are_atomic_and_fences_hold() -> None:
    run_state_machine_as_test(TransactionMachine, settings=EXAMPLES)


def forget_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: any client that knows the producer id may add partitions."""

    def check(current: TransactionSnapshot, producer: ProducerAndEpoch) -> None:
        if current.producer_id != producer.producer_id:
            raise OperationError(ErrorCode.invalid_producer_id_mapping)

    monkeypatch.setattr(core_module, "check_producer", check)


def send_before_storing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: markers go out while the outcome is still on its way into the log."""
    persist = Transaction._persist

    def eager(
        self: Transaction, target: TransactionSnapshot, reply: Reply = None, answer: ProducerAnswer | None = None
    ) -> list[Action]:
        actions = persist(self, target, reply, answer)
        return [*actions, SendMarkers(target)] if target.is_ending and target.partitions else actions

    monkeypatch.setattr(Transaction, "_persist", eager)


def zombie_adds(machine: TransactionMachine) -> None:
    for client in "ab":
        machine.init(client=client, goes_on=False, lost=False, outcome="stored")
    machine.add(client="a", count=1, outcome="stored")


def commit_fails_and_becomes_an_abort(machine: TransactionMachine) -> None:
    machine.init(client="a", goes_on=False, lost=False, outcome="stored")
    machine.add(client="a", count=2, outcome="stored")
    machine.end(client="a", commit=True, lost=False, outcome="failed")
    machine.end(client="a", commit=False, lost=False, outcome="stored")
    machine.write_markers(count=9, times=1, reported=False)


@pytest.mark.parametrize(
    ("plant", "script"), [(forget_epochs, zombie_adds), (send_before_storing, commit_fails_and_becomes_an_abort)]
)
def test_planted_bugs_are_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    script: Callable[[TransactionMachine], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> None:
        machine = TransactionMachine()
        machine.begin(epoch=3, version=2)
        script(machine)

    run()
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"succeeds after|committed and aborted|otherwise than reported"):
        run()
