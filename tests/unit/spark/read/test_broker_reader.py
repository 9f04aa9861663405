from __future__ import annotations

from collections.abc import Callable

import pytest

from crabka._kio import ErrorCode
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetch_messages import FetchAnswer
from crabka.clients.fetcher import FetcherSettings
from crabka.clients.isolation import AbortedSpan
from crabka.clients.offsets import EARLIEST
from crabka.ids import TopicPartition
from crabka.records.header import iter_headers
from crabka.spark.decode import BatchDecoder
from crabka.spark.errors import DataLossError, TierReadError, TopicChangedError
from crabka.spark.plan.ranges import BrokerRange
from crabka.spark.read.broker_reader import BrokerReader
from crabka.spark.read.settings import ReadSettings
from crabka.spark.source.options import SourceOptions
from tests.support.planted_tier import PRODUCER_ID, batches, transaction

T0 = TopicPartition("t", 0)


class LogSession:
    """Answers fetches from one log, two batches at a time; `fault` may answer first."""

    def __init__(self, log: bytes, start: int = 0) -> None:
        self.batches = [
            (header, log[position : position + header.size_in_bytes]) for position, header in iter_headers(log)
        ]
        self.start = start
        self.aborted: dict[AbortedSpan, int] = {}  # with the offsets of their markers
        self.fault: Callable[[int], FetchAnswer | None] = lambda _offset: None
        self.fetched: list[int] = []

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset

    def fetch(
        self, partition: TopicPartition, offset: int, limits: FetcherSettings, timeout_ms: int, *, topic_id: str | None
    ) -> FetchAnswer:
        assert partition == T0
        if topic_id is not None:
            raise TopicChangedError("another topic")
        self.fetched.append(offset)
        if (answer := self.fault(offset)) is not None:
            return answer
        if not self.start <= offset <= self.end:
            return FetchAnswer(ErrorCode.offset_out_of_range, -1, -1, (), b"")
        found = [data for header, data in self.batches if header.last_offset >= offset][:2]
        aborted = tuple(span for span, marker in self.aborted.items() if marker >= offset)
        return FetchAnswer(ErrorCode.none, self.end, self.start, aborted, b"".join(found))

    def offsets(self, timestamps: dict[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        return {p: self.start if position == EARLIEST else self.end for p, position in timestamps.items()}


def read(session: LogSession, start: int, end: int, topic_id: str | None = None, **more: str) -> list[int]:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "0"}
    options = SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)
    reader = BrokerReader(session, ReadSettings.of(options, ["offset"]))  # type: ignore[arg-type]
    rows = reader.read(BrokerRange("t", topic_id, 0, start, end), BatchDecoder(["offset"]))
    return [offset for batch in rows for offset in batch.column("offset").to_pylist()]


def test_just_the_offsets_of_the_range_are_read() -> None:
    session = LogSession(batches(0, 8))
    assert read(session, 7, 33) == list(range(7, 33))
    assert session.fetched == [7, 15, 25]


def test_a_range_may_end_in_a_gap() -> None:
    assert read(LogSession(batches(0, 2) + batches(50, 2)), 3, 30) == [*range(3, 10)]


def test_aborted_transactions_are_left_out_of_committed_rows() -> None:
    session = LogSession(transaction(0, committed=False) + transaction(3, committed=True))
    session.aborted = {AbortedSpan(PRODUCER_ID, 0): 2}
    assert read(session, 0, 6, isolation__level="read_committed") == [3, 4]
    assert read(session, 0, 6) == [0, 1, 3, 4]


def test_passing_errors_are_waited_for() -> None:
    session = LogSession(batches(0, 2))
    faults = [
        FetchAnswer(ErrorCode.not_leader_or_follower, -1, -1, (), b""),
        FetchAnswer(ErrorCode.none, 0, 0, (), b""),
    ]
    session.fault = lambda _offset: faults.pop() if faults else None
    assert read(session, 0, 10, kafkaConsumer__pollTimeoutMs="60000") == list(range(10))


def test_a_broker_that_gives_nothing_is_not_waited_for_for_ever() -> None:
    session = LogSession(batches(0, 2))
    with pytest.raises(
        TierReadError, match="no record of t-0 came from offset 10 on in 0 ms: the high watermark is 10"
    ):
        read(session, 0, 20)

    def lost(_offset: int) -> None:
        raise ClientNetworkError("nobody there")

    session.fault = lost
    with pytest.raises(TierReadError, match="nobody there"):
        read(session, 0, 10)


def test_what_was_deleted_meanwhile_is_a_loss() -> None:
    session = LogSession(batches(0, 4), start=12)
    with pytest.raises(DataLossError, match="offsets 5 to 11 of t-0 are gone"):
        read(session, 5, 20)
    assert read(session, 5, 20, failOnDataLoss="false") == list(range(12, 20))
    assert read(session, 5, 9, failOnDataLoss="false") == []


def test_another_topic_of_the_same_name_is_a_loss() -> None:
    session = LogSession(batches(0, 4))
    with pytest.raises(TopicChangedError):
        read(session, 0, 20, "gone")
    assert read(session, 0, 20, "gone", failOnDataLoss="false") == []


def test_an_end_that_the_log_lost_is_passed_over_by_those_who_accept_that() -> None:
    assert read(LogSession(batches(0, 2)), 0, 20, failOnDataLoss="false") == list(range(10))
