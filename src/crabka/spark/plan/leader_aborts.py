"""What the leader of a partition knows of aborted transactions whose markers are not in the tier.

Only an answer with records counts: one with an error, or one that came too early to have any, has an empty list of
aborted transactions, which must not be taken for the truth. But where the log ends and no transaction is open there is
nothing to report: all markers lie before, in the tier. Compaction may have left no record there for a leader to send.
"""

from __future__ import annotations

import time
from typing import Final

from crabka._kio import ErrorCode
from crabka.clients.cluster import means_stale_metadata
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetch_messages import FetchAnswer
from crabka.clients.fetcher import FetcherSettings
from crabka.errors import OperationError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.spark.broker_session import BrokerSession
from crabka.spark.errors import SegmentVanishedError, TierReadError

_LIMITS: Final = FetcherSettings(max_wait_ms=500, partition_max_bytes=1, read_committed=True)
_REQUEST_TIMEOUT_MS: Final = 30_000
_PAUSE_S: Final = 0.05


class LeaderAborts:
    """Asks the leader of one partition, for as long as a read may wait for a record."""

    def __init__(
        self, session: BrokerSession, partition: TopicPartition, topic_id: str | None, poll_timeout_ms: int
    ) -> None:
        self._session = session
        self._partition = partition
        self._topic_id = topic_id
        self._timeout_ms = poll_timeout_ms

    def across(self, border: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that began before an offset and end right before it or later.

        The leader does not say where they end, so they end here with the offset before the border: what is after it
        comes from a broker, or from a part of the tier that knows the marker. Raises TierReadError, TopicChangedError
        and what clients raise.
        """
        # The fetch begins one offset earlier: at the last stable offset itself there is nothing to report.
        last_offset = border - 1
        answer = self._fetch(last_offset)
        return [
            AbortedTransaction(span.producer_id, span.first_offset, last_offset, -1)
            for span in answer.aborted
            if span.first_offset < border
        ]

    def _fetch(self, offset: int) -> FetchAnswer:
        """Fetch until there are records."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            answer, failure = self._try(offset)
            if answer is not None:
                return answer
            if time.monotonic() >= deadline:
                raise TierReadError(
                    f"the leader of {self._partition} did not say in {self._timeout_ms} ms which transactions around "
                    f"offset {offset} were aborted: {failure}"
                )
            time.sleep(_PAUSE_S)

    def _try(self, offset: int) -> tuple[FetchAnswer | None, str]:
        """Return an answer that counts, or why there is none yet."""
        try:
            answer = self._session.fetch(self._partition, offset, _LIMITS, _REQUEST_TIMEOUT_MS, topic_id=self._topic_id)
        except ClientNetworkError as error:
            return None, str(error)
        except OperationError as error:
            if not error.retriable:
                raise
            return None, str(error)
        code = answer.error_code
        if code is ErrorCode.none:
            if answer.records or answer.last_stable_offset == answer.high_watermark == offset + 1:
                return answer, ""
            return None, f"it has no records, up to {answer.high_watermark}"
        if code is ErrorCode.offset_out_of_range:
            # Deleted or cut off since the survey: another one shows what is there now.
            raise SegmentVanishedError(f"offset {offset} of {self._partition} is in the tier and not in the log")
        if not (means_stale_metadata(code) or code.retriable):
            raise OperationError(code, f"fetch of {self._partition}: {code.name}")
        return None, code.name
