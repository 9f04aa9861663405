"""Rows of offsets that a broker is asked for: raw fetches, decoded as the tier is.

The next fetch is under way while the rows of the last one are made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from crabka._kio import ErrorCode
from crabka.clients.cluster import means_stale_metadata
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetch_messages import FetchAnswer
from crabka.clients.fetcher import FetcherSettings
from crabka.clients.offsets import EARLIEST, LATEST
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.spark.broker_session import BrokerSession
from crabka.spark.decode import AbortedTransactions, BatchDecoder, Origin, RowRange
from crabka.spark.errors import DataLossError, TierReadError, TopicChangedError
from crabka.spark.plan.ranges import BrokerRange
from crabka.spark.read.batch_walk import next_offset_of
from crabka.spark.read.settings import ReadSettings

_FETCH_BYTES: Final = 8 << 20
_MAX_WAIT_MS: Final = 500
_PAUSE_S: Final = 0.05
_REQUEST_TIMEOUT_MS: Final = 30_000


class BrokerReader:
    """Reads ranges through one session."""

    def __init__(self, session: BrokerSession, settings: ReadSettings) -> None:
        self._session = session
        self._options = settings.options
        self._limits = FetcherSettings(
            max_wait_ms=_MAX_WAIT_MS,
            partition_max_bytes=_FETCH_BYTES,
            read_committed=settings.options.read_committed,
        )

    def read(self, each: BrokerRange, decoder: BatchDecoder) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range.

        Raises DataLossError for what is gone, TierReadError if nothing comes for too long, CorruptBatch and what
        clients raise.
        """
        partition = TopicPartition(each.topic, each.partition)
        where = f"broker of {partition}"
        position = each.start_offset
        with ThreadPoolExecutor(1, thread_name_prefix="broker-read") as pool:
            coming = pool.submit(self._fetch, partition, position, each.topic_id)
            while position < each.end_offset:
                answer, position = self._wait(each, position, coming)
                following = next_offset_of(answer.records, position)
                if following < each.end_offset:
                    coming = pool.submit(self._fetch, partition, following, each.topic_id)
                aborted = None
                if self._options.read_committed:
                    aborted = AbortedTransactions(
                        (span.producer_id, span.first_offset, None) for span in answer.aborted
                    )
                # Batches may begin before the position, with what was read before or is deleted.
                rows = RowRange(position, each.end_offset)
                yield from decoder.decode(
                    answer.records, Origin(each.topic, each.partition, where, position), rows, aborted
                )
                position = following

    def _fetch(self, partition: TopicPartition, offset: int, topic_id: str | None) -> FetchAnswer:
        """Fetch until there are records, or an error that waiting does not help, or it takes too long."""
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        while True:
            failure = None
            is_behind_end = False
            try:
                answer = self._session.fetch(partition, offset, self._limits, _REQUEST_TIMEOUT_MS, topic_id=topic_id)
                if answer.error_code is ErrorCode.none:
                    if answer.records and next_offset_of(answer.records, offset) > offset:
                        return answer
                    failure = f"the high watermark is {answer.high_watermark}"
                    is_behind_end = answer.high_watermark <= offset
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
                if is_behind_end and not self._options.fail_on_data_loss:
                    # The log lost its end: who accepts that gets on, as in Spark's source.
                    return answer._replace(error_code=ErrorCode.offset_out_of_range)
                waited = self._options.poll_timeout_ms
                raise TierReadError(f"no record of {partition} came from offset {offset} on in {waited} ms: {failure}")
            time.sleep(_PAUSE_S)

    def _wait(self, each: BrokerRange, position: int, coming: Future[FetchAnswer]) -> tuple[FetchAnswer, int]:
        """Return the answer and from where on it is; offsets that are gone are passed over if that is allowed."""
        partition, end = TopicPartition(each.topic, each.partition), each.end_offset
        try:
            answer = coming.result()
        except TopicChangedError:
            if self._options.fail_on_data_loss:
                raise
            return FetchAnswer(ErrorCode.none, end, end, (), b""), end
        while answer.error_code is ErrorCode.offset_out_of_range:
            position = self._after_loss(partition, position, end)
            if position >= end:
                return answer._replace(records=b""), end
            answer = self._fetch(partition, position, each.topic_id)
        return answer, position

    def _after_loss(self, partition: TopicPartition, position: int, end: int) -> int:
        committed = self._options.read_committed
        earliest = self._session.offsets({partition: EARLIEST}, read_committed=committed)[partition]
        latest = self._session.offsets({partition: LATEST}, read_committed=committed)[partition]
        if earliest <= position < latest:
            return position  # the leader moved meanwhile
        gone_until = min(earliest, end) if earliest > position else end
        if self._options.fail_on_data_loss:
            raise DataLossError(f"offsets {position} to {gone_until - 1} of {partition} are gone")
        return gone_until
