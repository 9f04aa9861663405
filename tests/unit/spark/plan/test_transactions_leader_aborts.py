from __future__ import annotations

from collections.abc import Sequence

import pytest

from crabka.clients import NewTopic, ProducerSettings, SyncAdmin, SyncProducer
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import LATEST
from crabka.embedded import Broker
from crabka.errors import OperationError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import SegmentVanishedError, TierReadError
from crabka.spark.plan import transactions
from crabka.spark.plan.transactions import LeaderAborts

T0 = TopicPartition("t", 0)
ANSWER = FetchAnswer(ErrorCode.none, 100, 0, (AbortedSpan(9, 50), AbortedSpan(8, 60)), b"records")
EMPTY = FetchAnswer(ErrorCode.none, 100, 0, (), b"")


class Leader:
    """Answers one fetch after the other as it was given; the last answer for all further ones."""

    def __init__(self, answers: Sequence[FetchAnswer | Exception]) -> None:
        self.answers = list(answers)
        self.fetched: list[int] = []

    def fetch(
        self, partition: TopicPartition, offset: int, limits: FetcherSettings, timeout_ms: int, *, topic_id: str | None
    ) -> FetchAnswer:
        assert (partition, limits.read_committed, topic_id) == (T0, True, "id")
        self.fetched.append(offset)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_PAUSE_S", 0)


def failed(code: ErrorCode) -> FetchAnswer:
    return FetchAnswer(code, -1, -1, (), b"")


def aborts(leader: Leader, timeout_ms: int = 60_000) -> LeaderAborts:
    return LeaderAborts(leader, T0, "id", timeout_ms)  # type: ignore[arg-type]


def test_transactions_end_at_the_border() -> None:
    leader = Leader([ANSWER])
    assert aborts(leader).across(60) == [AbortedTransaction(9, 50, 59, -1)]
    # At the border itself, if it is the last stable offset, the answer would have neither records nor aborts.
    assert leader.fetched == [59]


@pytest.mark.parametrize(
    "first",
    [
        EMPTY,
        failed(ErrorCode.not_leader_or_follower),
        failed(ErrorCode.fenced_leader_epoch),
        ClientNetworkError("no connection"),
        OperationError(ErrorCode.coordinator_load_in_progress, "later"),
    ],
)
def test_an_answer_without_records_is_asked_for_again(first: FetchAnswer | Exception) -> None:
    leader = Leader([first, ANSWER])
    assert aborts(leader).across(60) == [AbortedTransaction(9, 50, 59, -1)]
    assert len(leader.fetched) == 2


@pytest.mark.parametrize("answer", [EMPTY, failed(ErrorCode.not_leader_or_follower), ClientNetworkError("gone")])
def test_nothing_is_assumed_if_the_leader_never_answers(answer: FetchAnswer | Exception) -> None:
    with pytest.raises(TierReadError, match="the leader of t-0 did not say in 0 ms which transactions"):
        aborts(Leader([answer]), timeout_ms=0).across(60)


def test_where_the_log_ends_without_open_transactions_there_is_nothing_to_report() -> None:
    ending = EMPTY._replace(high_watermark=60, last_stable_offset=60)
    assert aborts(Leader([ending]), timeout_ms=0).across(60) == []


@pytest.mark.parametrize(("end", "stable"), [(61, 60), (61, 61), (60, 59)])
def test_markers_may_follow_the_border_or_be_missing_yet(end: int, stable: int) -> None:
    with pytest.raises(TierReadError, match="did not say"):
        aborts(Leader([EMPTY._replace(high_watermark=end, last_stable_offset=stable)]), timeout_ms=0).across(60)


def test_what_waiting_does_not_help_is_raised() -> None:
    for code in (ErrorCode.topic_authorization_failed, ErrorCode.unsupported_version):
        with pytest.raises(OperationError):
            aborts(Leader([failed(code)])).across(60)
        with pytest.raises(OperationError):
            aborts(Leader([OperationError(code, "no")])).across(60)


def test_an_offset_that_the_log_has_lost_makes_the_plan_old() -> None:
    with pytest.raises(SegmentVanishedError, match="offset 59 of t-0 is in the tier and not in the log"):
        aborts(Leader([failed(ErrorCode.offset_out_of_range)])).across(60)


def test_a_leader_reports_a_marker_after_its_last_stable_offset() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        servers = broker.bootstrap_servers
        with (
            SyncProducer(servers, ProducerSettings(transactional_id="first")) as aborting,
            SyncProducer(servers, ProducerSettings(transactional_id="second")) as open_one,
        ):
            for producer in (aborting, open_one):
                producer.init_transactions()
                producer.begin_transaction()
            for _ in range(3):
                aborting.send("t", b"x", partition=0).result()
            open_one.send("t", b"y", partition=0).result()
            aborting.abort_transaction()
            with BrokerSession(servers, {}) as session:
                # Offsets 0..2 are aborted by the marker at 4, and from 3 on a transaction is open.
                assert session.offsets({T0: LATEST}, read_committed=True) == {T0: 3}
                leader = LeaderAborts(session, T0, None, 60_000)
                assert [(each.first_offset, each.last_offset) for each in leader.across(3)] == [(0, 2)]
                assert [(each.first_offset, each.last_offset) for each in leader.across(2)] == [(0, 1)]
            open_one.abort_transaction()
