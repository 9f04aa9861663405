"""Rows of offsets that brokers have: raw fetches, decoded like the tier.

The next fetch is under way while the rows of the last one are made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from crabka.clients.cluster.cluster import means_stale_metadata
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import EXTENT_STRUCT, HEADER_SIZE, LOG_OVERHEAD
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.decode import AbortedTransactions, BatchBounds, CorruptBatch, Origin, RowRange
from crabka.spark.errors import DataLossError, TierReadError, TopicChangedError, lose
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.ranges import BrokerRange

if TYPE_CHECKING:
    from crabka.spark.decode import BatchDecoder


logger = logging.getLogger(__name__)
_FETCH_BYTES: Final = 8 << 20
_MAX_WAIT_MS: Final = 500
_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 1.0


class _NoRecordsError(TierReadError):
    """A broker answers without errors and without records."""


class BrokerReader:
    """Reads ranges through one session."""

    def __init__(self, session: BrokerSession, options: SourceOptions) -> None:
        self._session = session
        self._options = options
        self._limits = FetcherSettings(
            max_wait_ms=_MAX_WAIT_MS,
            partition_max_bytes=_FETCH_BYTES,
            read_committed=options.read_committed,
        )

    def read(self, each: BrokerRange, make_decoder: Callable[[], BatchDecoder]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range; the decoder is made when the first request is under way.

        Raises DataLossError for what is gone, TierReadError if nothing comes for too long, CorruptBatch and what
        clients raise.
        """
        partition = TopicPartition(each.topic, each.partition)
        position = first_row = each.start_offset
        read_until = 0
        with ThreadPoolExecutor(1, thread_name_prefix="broker-read") as pool:
            coming = pool.submit(self._fetch, partition, position, each.topic_id)
            decoder = make_decoder()
            while position < each.end_offset:
                answer, found_at = self._wait(each, position, coming)
                if found_at > position:
                    position = first_row = found_at
                if position >= each.end_offset:
                    return
                origin = Origin(each.topic, each.partition, f"broker of {partition}", position)
                bounds = BatchBounds(read_until, self._log_end(partition, answer))
                # Batches may begin before the position, with what was read before or is deleted.
                wanted = RowRange(first_row, each.end_offset)
                rows = decoder.decode(answer.records, origin, wanted, self._aborted_in(answer), bounds=bounds)
                read_until = decoder.next_offset
                position = read_until if read_until > position else _after_corrupt(answer.records, origin, bounds)
                first_row = max(first_row, read_until)
                if position < each.end_offset:
                    coming = pool.submit(self._fetch, partition, position, each.topic_id)
                yield from rows

    def _aborted_in(self, answer: FetchAnswer) -> AbortedTransactions | None:
        if not self._options.read_committed:
            return None
        return AbortedTransactions((span.producer_id, span.first_offset, None) for span in answer.aborted)

    def _log_end(self, partition: TopicPartition, answer: FetchAnswer) -> int:
        """Return an offset that no batch of an answer reaches over.

        The high watermark is from before Kafka read the batches (Partition.readRecords), so that it may have risen.
        """
        if next_offset_of(answer.records, 0) <= answer.high_watermark:
            return answer.high_watermark
        return max(answer.high_watermark, self._session.offsets({partition: LATEST}, read_committed=False)[partition])

    def _fetch(self, partition: TopicPartition, offset: int, topic_id: str | None) -> FetchAnswer:
        """Fetch until there are records, or an error that waiting does not help, or it takes too long."""
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        while True:
            kind = TierReadError
            try:
                answer = self._session.fetch(partition, offset, self._limits, None, topic_id=topic_id)
                if answer.error_code is ErrorCode.none:
                    # Whether they make sense is for the decoder to say: asking again would give the same.
                    if len(answer.records) >= HEADER_SIZE:
                        return answer
                    kind, failure = _NoRecordsError, f"the high watermark is {answer.high_watermark}"
                elif answer.error_code is ErrorCode.offset_out_of_range:
                    return answer
                elif not (means_stale_metadata(answer.error_code) or answer.error_code.retriable):
                    raise OperationError(answer.error_code, f"fetch of {partition}: {answer.error_code.name}")
                else:
                    failure = answer.error_code.name
            except (ClientNetworkError, OperationError) as error:
                if isinstance(error, OperationError) and not error.retriable:
                    raise
                failure = str(error)
            if time.monotonic() >= deadline:
                waited = self._options.poll_timeout_ms
                raise kind(f"no record of {partition} came from offset {offset} on in {waited} ms: {failure}")
            time.sleep(_PAUSE_S)

    def _wait(self, each: BrokerRange, position: int, coming: Future[FetchAnswer]) -> tuple[FetchAnswer, int]:
        """Return the answer and its first offset; what is gone is skipped if losses are accepted."""
        partition, end = TopicPartition(each.topic, each.partition), each.end_offset
        try:
            answer = coming.result()
            while answer.error_code is ErrorCode.offset_out_of_range:
                answer, gone_until = self._insist(each, position, answer)
                if answer.error_code is ErrorCode.offset_out_of_range:
                    position = self._lose(partition, position, gone_until)
                    if position >= end:
                        break
                    answer = self._fetch(partition, position, each.topic_id)
        except _NoRecordsError:
            if self._log_range(partition)[1] > position:
                raise
            # The log was cut after the records that were read last.
            position = self._lose(partition, position, end)
        except TopicChangedError as error:
            lose(self._options, error)
            position = end
        else:
            return answer, position
        return FetchAnswer(ErrorCode.none, end, end, (), b""), end

    def _insist(self, each: BrokerRange, position: int, answer: FetchAnswer) -> tuple[FetchAnswer, int]:
        """Retry while the log, by its bounds, has an offset that a fetch reports as out of range.

        That happens while a leader moves, but also if a broker lacks the metadata of a remote segment, maybe forever.
        Returns the last answer, and the next offset that a broker may give.
        """
        partition, end = TopicPartition(each.topic, each.partition), each.end_offset
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        pause_s = _PAUSE_S
        while True:
            earliest, latest = self._log_range(partition)
            if not earliest <= position < latest:
                return answer, min(earliest, end) if earliest > position else end
            answer = self._fetch(partition, position, each.topic_id)
            if answer.error_code is not ErrorCode.offset_out_of_range:
                return answer, position
            if time.monotonic() >= deadline:
                local = self._session.offsets({partition: EARLIEST_LOCAL}, read_committed=False)[partition]
                return answer, min(local, end) if local > position else end
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _lose(self, partition: TopicPartition, position: int, gone_until: int) -> int:
        lose(self._options, DataLossError(f"offsets {position} to {gone_until - 1} of {partition} are gone"))
        return gone_until

    def _log_range(self, partition: TopicPartition) -> tuple[int, int]:
        committed = self._options.read_committed
        earliest = self._session.offsets({partition: EARLIEST}, read_committed=committed)[partition]
        latest = self._session.offsets({partition: LATEST}, read_committed=committed)[partition]
        return earliest, latest


def _after_corrupt(records: bytes, origin: Origin, bounds: BatchBounds) -> int:
    """Return the offset after the first batch of an answer of which all batches are left out.

    Raises CorruptBatch if it is not whole or does not have the offset that was fetched: then nothing is known of what
    follows it.
    """
    found = first_offsets_of(records)
    fetched = origin.position
    if found is not None and found[0] <= fetched <= found[1] < bounds.end_offset:
        return found[1] + 1
    base_offset = int.from_bytes(records[:8], "big", signed=True)
    reason = f"it came for offset {fetched}, and nothing after it can be found"
    raise CorruptBatch(origin, reason, base_offset=base_offset, size_bytes=len(records), skippable=False)


def next_offset_of(records: bytes | memoryview, offset: int) -> int:
    """Return the offset after the last whole batch, `offset` if there is none."""
    position, size = 0, len(records)
    while position + EXTENT_STRUCT.size <= size:
        base_offset, length, last_delta = EXTENT_STRUCT.unpack_from(records, position)
        position += LOG_OVERHEAD + length
        if length <= 0 or position > size:
            break
        offset = max(offset, base_offset + last_delta + 1)
    return offset


def first_offsets_of(records: bytes | memoryview) -> tuple[int, int] | None:
    """Return the first and last offset of the first batch, None if it is not whole."""
    if len(records) < EXTENT_STRUCT.size:
        return None
    base_offset, length, last_delta = EXTENT_STRUCT.unpack_from(records)
    if not 0 < length <= len(records) - LOG_OVERHEAD:
        return None
    return base_offset, base_offset + last_delta
