"""Arrow rows against the plain decoder of `crabka.records`: any records, codecs, gaps, transactions and cuts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crabka.records import Record, build_batch, parse_header
from crabka.records.filtering import emptied_batch, filtered_batch, raw_records
from crabka.records.header import CREATE_TIME, LOG_APPEND_TIME
from crabka.spark.decode import AbortedTransactions, BatchDecoder, RowRange
from tests.support.spark.decoded_rows import ALL_COLUMNS, ORIGIN, decoded_rows, expected_rows, marker, rows_in

OPTIONAL_BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3).map(tuple)
TIMES = st.integers(-1, 4_000_000_000_000)
RECORDS = st.builds(Record, st.just(0), TIMES, OPTIONAL_BYTES, OPTIONAL_BYTES, st.just(()) | HEADERS)
COLUMNS = st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True)
PRODUCERS = (7, 8)


class LogWriter:
    """Draws a log: plain and transactional batches of all kinds, compacted ones, markers and gaps."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.data = b""
        self.offset = draw(st.integers(0, 2**40))
        self.aborted: list[tuple[int, int, int]] = []
        self.dropped: set[int] = set()
        self._draw = draw
        self._open: dict[int, list[int]] = {}

    def write(self) -> None:
        """Append something."""
        match self._draw(st.integers(0, 9)):
            case 0:
                self.offset += self._draw(st.integers(1, 2_000))
            case 1 | 2 if self._open:
                self._end(self._draw(st.sampled_from(sorted(self._open))))
            case _:
                self._batch()

    def finish(self) -> None:
        """End all transactions."""
        for producer_id in sorted(self._open):
            self._end(producer_id)

    def _end(self, producer_id: int) -> None:
        offsets = self._open.pop(producer_id)
        committed = self._draw(st.booleans())
        if not committed:
            self.aborted.append((producer_id, offsets[0], self.offset))
            self.dropped.update(offsets)
        self.data += marker(producer_id, self.offset, committed=committed)
        self.offset += 1

    def _batch(self) -> None:
        draw = self._draw
        records = draw(st.lists(RECORDS, min_size=1, max_size=12))
        fields: dict[str, Any] = {"codec": draw(st.integers(0, 4))}
        if draw(st.booleans()):
            fields |= {"timestamp_type": draw(st.sampled_from((CREATE_TIME, LOG_APPEND_TIME))), "max_timestamp": 5_000}
        if draw(st.booleans()):
            producer_id = draw(st.sampled_from(PRODUCERS))
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
            self._open.setdefault(producer_id, []).append(self.offset)
        batch = build_batch(records, base_offset=self.offset, **fields)
        self.data += self._compacted(batch) if draw(st.integers(0, 3)) == 0 else batch
        self.offset += len(records)

    def _compacted(self, batch: bytes) -> bytes:
        header = parse_header(batch)
        records = [record for record in raw_records(batch, header) if self._draw(st.booleans())]
        if not records:
            return emptied_batch(header)
        return filtered_batch(header, records, self._draw(st.none() | st.just(1_900_000_000_000)))


@st.composite
def logs(draw: st.DrawFn) -> LogWriter:
    """A log with up to eight entries."""
    writer = LogWriter(draw)
    for _ in range(draw(st.integers(0, 8))):
        writer.write()
    writer.finish()
    return writer


@given(logs(), COLUMNS, st.integers(1, 40), st.sampled_from((1, 200, 1 << 20)))
def test_rows_are_those_of_the_plain_decoder(log: LogWriter, columns: list[str], max_rows: int, max_bytes: int) -> None:
    expected = [{name: row[name] for name in columns} for row in expected_rows(log.data)]
    assert decoded_rows(log.data, columns=columns, max_rows=max_rows, max_bytes=max_bytes) == expected


@given(logs(), st.data())
def test_ranges_and_aborted_transactions_leave_exactly_the_other_rows(log: LogWriter, data: st.DataObject) -> None:
    start = data.draw(st.integers(max(0, log.offset - 60), log.offset))
    rows = RowRange(start, data.draw(st.integers(start, log.offset)))
    expected = expected_rows(log.data, rows, log.dropped)
    from_index = AbortedTransactions(log.aborted)
    from_fetch = AbortedTransactions([(producer_id, first, None) for producer_id, first, _ in log.aborted])
    assert decoded_rows(log.data, rows, from_index) == expected
    assert decoded_rows(log.data, rows, from_fetch) == expected


@given(logs(), st.data())
def test_data_may_come_in_any_pieces(log: LogWriter, data: st.DataObject) -> None:
    decoder = BatchDecoder(ALL_COLUMNS)
    rest = b""
    rows = []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.data)), max_size=5)))
    for start, end in zip([0, *cuts], [*cuts, len(log.data)], strict=True):
        rest += log.data[start:end]
        rows += rows_in(decoder.decode(rest, ORIGIN, RowRange(0, 1 << 62)))
        rest = rest[decoder.consumed :]
    assert rest == b""
    assert rows == expected_rows(log.data)
