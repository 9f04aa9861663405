from __future__ import annotations

import struct
from collections.abc import Callable
from threading import Event

import pytest

from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.spark.decode import BatchDecoder, CorruptBatch
from crabka.spark.decode.batches import CorruptionListener
from crabka.spark.errors import DataLossError, TierReadError, TopicChangedError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.ranges import BrokerRange
from crabka.spark.read.broker_reader import BrokerReader, first_offsets_of, next_offset_of
from tests.support.tiers.planted import PRODUCER_ID, batches, transaction

T0 = TopicPartition("t", 0)


class LogSession:
    """Answers fetches from one log, two batches at a time; `fault` may answer first."""

    def __init__(self, log: bytes, start: int = 0) -> None:
        self.batches = [
            (header, log[position : position + header.size_in_bytes]) for position, header in iter_headers(log)
        ]
        self.start = start
        self.local_start = start
        self.latest: int | None = None  # if it is another than the end
        self.aborted: dict[AbortedSpan, int] = {}  # with the offsets of their markers
        self.fault: Callable[[int], FetchAnswer | None] = lambda _offset: None
        self.fetched: list[int] = []
        self.same_topic_for = 0  # so many fetches
        self.at_a_time = 2

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        limits: FetcherSettings,
        timeout_ms: int | None,
        *,
        topic_id: str | None,
    ) -> FetchAnswer:
        assert partition == T0
        assert timeout_ms is None  # that of the session, which is the user's
        self.fetched.append(offset)
        if topic_id is not None and len(self.fetched) > self.same_topic_for:
            raise TopicChangedError("another topic")
        if (answer := self.fault(offset)) is not None:
            return answer
        if not self.start <= offset <= self.end:
            return FetchAnswer(ErrorCode.offset_out_of_range, -1, -1, (), b"")
        found = [data for header, data in self.batches if header.last_offset >= offset][: self.at_a_time]
        aborted = tuple(span for span, marker in self.aborted.items() if marker >= offset)
        return FetchAnswer(ErrorCode.none, self.end, self.start, aborted, b"".join(found))

    def offsets(self, timestamps: dict[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        latest = self.end if self.latest is None else self.latest
        known = {EARLIEST: self.start, EARLIEST_LOCAL: self.local_start, LATEST: latest}
        return {partition: known[position] for partition, position in timestamps.items()}

    def spoil(self, number: int, position: int, replacement: bytes) -> None:
        """Overwrite bytes of a batch; the broker goes on to find it where it was."""
        header, data = self.batches[number]
        self.batches[number] = header, data[:position] + replacement + data[position + len(replacement) :]


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def read(
    session: LogSession,
    start: int,
    end: int,
    topic_id: str | None = None,
    on_corrupt: CorruptionListener | None = None,
    **more: str,
) -> list[int]:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "0"}
    options = SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)
    reader = BrokerReader(session, options)  # type: ignore[arg-type]
    each = BrokerRange("t", topic_id, 0, start, end)
    rows = reader.read(each, lambda: BatchDecoder(["offset"], on_corrupt=on_corrupt))
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
    session.latest = 20
    with pytest.raises(
        TierReadError, match="no record of t-0 came from offset 10 on in 0 ms: the high watermark is 10"
    ):
        read(session, 0, 20)

    def lost(_offset: int) -> None:
        raise ClientNetworkError("no broker there")

    session.fault = lost
    with pytest.raises(TierReadError, match="no broker there"):
        read(session, 0, 10)


def test_what_was_deleted_meanwhile_is_a_loss() -> None:
    session = LogSession(batches(0, 4), start=12)
    with pytest.raises(DataLossError, match="offsets 5 to 11 of t-0 are gone"):
        read(session, 5, 20)
    assert read(session, 5, 20, failOnDataLoss="false") == list(range(12, 20))
    assert read(session, 5, 9, failOnDataLoss="false") == []


def test_another_topic_of_the_same_name_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    session = LogSession(batches(0, 4))
    with pytest.raises(TopicChangedError):
        read(session, 0, 20, "gone")
    assert read(session, 0, 20, "gone", failOnDataLoss="false") == []
    (found,) = caplog.messages
    assert "set failOnDataLoss" not in found


def test_an_end_that_the_log_lost_is_passed_over_by_those_who_accept_that() -> None:
    assert read(LogSession(batches(0, 2)), 0, 20, failOnDataLoss="false") == list(range(10))


def test_a_topic_that_changes_while_an_offset_is_looked_for_is_a_loss() -> None:
    session = LogSession(batches(0, 4))
    session.same_topic_for = 1
    session.fault = lambda _offset: OUT_OF_RANGE
    with pytest.raises(TopicChangedError):
        read(session, 0, 20, "gone")
    session.fetched.clear()
    assert read(session, 0, 20, "gone", failOnDataLoss="false") == []
    assert len(session.fetched) == 2


def test_a_log_that_became_shorter_is_a_loss() -> None:
    session = LogSession(batches(0, 2))
    with pytest.raises(DataLossError, match="offsets 10 to 19 of t-0 are gone"):
        read(session, 0, 20)
    assert read(session, 0, 20, failOnDataLoss="false") == list(range(10))
    assert read(session, 15, 20, failOnDataLoss="false") == []


OUT_OF_RANGE = FetchAnswer(ErrorCode.offset_out_of_range, -1, -1, (), b"")


def test_an_offset_that_a_broker_denies_and_has_is_asked_for_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime()
    monkeypatch.setattr("crabka.spark.read.broker_reader.time", clock)
    session = LogSession(batches(0, 8))
    session.fault = lambda _offset: OUT_OF_RANGE if clock.now_s < 20 else None
    assert read(session, 7, 33, kafkaConsumer__pollTimeoutMs="60000") == list(range(7, 33))
    assert len(session.fetched) < 60


def test_an_offset_that_a_broker_denies_for_good_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka does if it lacks the metadata of a remote segment: what lies on its own disks can be read."""
    monkeypatch.setattr("crabka.spark.read.broker_reader.time", FakeTime())
    session = LogSession(batches(0, 8))
    session.local_start = 20
    session.fault = lambda offset: OUT_OF_RANGE if offset < 20 else None
    with pytest.raises(DataLossError, match="offsets 7 to 19 of t-0 are gone"):
        read(session, 7, 33, kafkaConsumer__pollTimeoutMs="60000")
    assert len(session.fetched) < 120
    assert read(session, 7, 33, failOnDataLoss="false") == list(range(20, 33))
    assert read(session, 7, 18, failOnDataLoss="false") == []
    session.local_start = 0
    assert read(session, 7, 33, failOnDataLoss="false") == []


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (0, struct.pack(">q", 15 + 65_536), "offsets 65551 to 65555 are not before 40"),
        (0, struct.pack(">q", 37), "offsets 37 to 41 are not before 40"),
        (23, struct.pack(">i", 4 + 256), "not before 40"),
        (23, struct.pack(">i", 3), "checksum"),
    ],
)
@pytest.mark.parametrize("start", [0, 5, 15], ids=["last", "first", "first of all"])
def test_a_wrong_offset_leads_nowhere(position: int, value: bytes, reason: str, start: int) -> None:
    """The batch with 15 to 19 is the last, or the first, of an answer."""
    session = LogSession(batches(0, 8))
    session.spoil(3, position, value)
    reported: list[CorruptBatch] = []
    expected = [offset for offset in range(start, 40) if not 15 <= offset < 20]
    with pytest.raises(CorruptBatch, match=reason):
        read(session, start, 40)
    assert read(session, start, 40, on_corrupt=reported.append) == expected
    assert {error.base_offset for error in reported} == {struct.unpack_from(">q", session.batches[3][1])[0]}


@pytest.mark.parametrize("start", [0, 15])
@pytest.mark.parametrize("wrong", [16, 17, 20, 31])
def test_a_wrong_offset_is_found_by_the_neighbours_in_an_answer(start: int, wrong: int) -> None:
    session = LogSession(batches(0, 8))
    session.at_a_time = 8
    session.spoil(3, 0, struct.pack(">q", wrong))
    reported: list[CorruptBatch] = []
    with pytest.raises(CorruptBatch, match=f"offsets {wrong} to {wrong + 4} cannot come before offset 20"):
        read(session, start, 40)
    expected = [offset for offset in range(start, 40) if not 15 <= offset < 20]
    assert read(session, start, 40, on_corrupt=reported.append) == expected
    assert [error.base_offset for error in reported] == [wrong]


def test_a_wrong_offset_is_found_when_the_next_answer_contradicts_it() -> None:
    session = LogSession(batches(0, 8))
    session.spoil(3, 0, struct.pack(">q", 16))
    with pytest.raises(CorruptBatch, match=r"batch at offset 20 of t-0.*cannot follow offset 20"):
        read(session, 0, 40)


def test_batches_that_came_after_the_high_watermark_are_sound() -> None:
    """Kafka reports the high watermark from before it read the batches."""
    session = LogSession(batches(0, 2))
    session.fault = lambda _offset: FetchAnswer(ErrorCode.none, 5, 0, (), batches(0, 2))
    assert read(session, 0, 10) == list(range(10))


def test_an_impossible_length_is_a_corrupt_batch_also_as_the_first_of_an_answer() -> None:
    for length in (0, -1, 1 << 20):
        session = LogSession(batches(0, 8))
        session.spoil(3, 8, struct.pack(">i", length))
        with pytest.raises(CorruptBatch, match="batch at offset 15 of t-0, object broker of t-0"):
            read(session, 15, 40, kafkaConsumer__pollTimeoutMs="60000")


def test_a_corrupt_batch_that_is_alone_in_its_answer_is_left_out() -> None:
    session = LogSession(batches(0, 8))
    session.spoil(3, 70, b"\xff\xff")
    alone = FetchAnswer(ErrorCode.none, 40, 0, (), session.batches[3][1])
    session.fault = lambda offset: alone if 15 <= offset < 20 else None
    reported: list[CorruptBatch] = []
    assert read(session, 0, 40, on_corrupt=reported.append) == [*range(15), *range(20, 40)]
    assert {error.base_offset for error in reported} == {15}


def test_a_corrupt_batch_without_a_known_end_is_an_error_if_it_is_alone() -> None:
    session = LogSession(batches(0, 8))
    session.spoil(3, 0, struct.pack(">q", 15 + 65_536))
    alone = FetchAnswer(ErrorCode.none, 40, 0, (), session.batches[3][1])
    session.fault = lambda offset: alone if 15 <= offset < 20 else None
    with pytest.raises(CorruptBatch, match="came for offset 15, and nothing after it can be found") as caught:
        read(session, 0, 40, on_corrupt=lambda _: None)
    assert not caught.value.skippable


def test_the_decoder_is_made_when_the_first_request_is_under_way() -> None:
    session = LogSession(batches(0, 2))
    asked = Event()
    session.fault = lambda _offset: asked.set()
    options = SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "subscribe": "t"}, streaming=False)

    def make() -> BatchDecoder:
        assert asked.wait(10)
        return BatchDecoder(["offset"])

    reader = BrokerReader(session, options)  # type: ignore[arg-type]
    (rows,) = reader.read(BrokerRange("t", None, 0, 0, 10), make)
    assert rows.num_rows == 10


LOG = batches(10, 3)


def test_the_offset_after_the_last_whole_batch_is_found() -> None:
    assert next_offset_of(LOG, 0) == 25
    assert next_offset_of(LOG[:-1], 0) == 20
    assert next_offset_of(memoryview(LOG)[:30], 7) == 7
    assert next_offset_of(b"", 7) == 7
    assert next_offset_of(LOG, 99) == 99


def test_a_length_that_makes_no_sense_ends_the_walk() -> None:
    assert next_offset_of(bytes(200), 3) == 3


def test_the_offsets_of_the_first_batch_are_known_if_it_is_whole() -> None:
    assert first_offsets_of(LOG) == (10, 14)
    assert first_offsets_of(LOG[: len(LOG) // 3]) == (10, 14)
    assert first_offsets_of(LOG[: len(LOG) // 3 - 1]) is None
    assert first_offsets_of(LOG[:20]) is None
    assert first_offsets_of(bytes(200)) is None
