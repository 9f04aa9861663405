"""Aborted transactions of ranges of the tier (KIP-98).

A transaction that wrote into a segment may be aborted by a marker in a later one, whose index then has the entry, also
if nothing else of that segment is read; or by a marker that the tier does not have, which only the leader knows.

Only an answer with records counts: one with an error, or one that came too early to have any, has an empty list of
aborted transactions. But where the log ends and no transaction is open, all markers lie before, in the tier, and
compaction may have left no record there for a leader to send.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final

from crabka.clients.cluster.cluster import means_stale_metadata
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.errors import OperationError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import SegmentVanishedError, TierReadError
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.ranges import AbortedSpans

_STEP = 64
_LIMITS: Final = FetcherSettings(max_wait_ms=500, partition_max_bytes=1, read_committed=True)
_REQUEST_TIMEOUT_MS: Final = 30_000
_PAUSE_S: Final = 0.05
AskLeader = Callable[[int], Sequence[AbortedTransaction]]
"""Returns the aborted transactions that reach from before an offset to it or farther, as far as they lie before it."""


class AbortedTable:
    """The aborted transactions of a partition, found by the offsets that they reach over."""

    def __init__(self, entries: Sequence[AbortedTransaction]) -> None:
        self._entries = sorted(entries, key=lambda entry: (entry.first_offset, entry.producer_id, entry.last_offset))
        self._firsts = [entry.first_offset for entry in self._entries]
        # Up to here no transaction reaches farther; it rises, so that it can be searched.
        self._reaches = list(accumulate((entry.last_offset for entry in self._entries), max))

    def within(self, start: int, end: int) -> AbortedSpans:
        """Return the transactions that have records from `start` up to, not including, `end`."""
        some = self._entries[bisect_left(self._reaches, start) : bisect_left(self._firsts, end)]
        return tuple(
            (entry.producer_id, entry.first_offset, entry.last_offset) for entry in some if entry.last_offset >= start
        )


def find_aborted(
    parts: Sequence[TierPart],
    all_parts: Sequence[TierPart],
    objects: SegmentObjects,
    ask_leader: AskLeader | None = None,
) -> list[AbortedTransaction]:
    """Return the transactions that may concern `parts`, from the indexes of all parts from there on.

    Both are in order, and `all_parts` has all that the tier has of the partition, as far as it counts. Where the tier
    has a gap or ends, the leader is asked. The search ends early at an entry that shows that nothing before the end of
    `parts` was open any more.
    """
    runs = list(_runs(parts))
    if not runs:
        return []
    firsts = [bisect_right(all_parts, run.start, key=attrgetter("end")) for run in runs]
    found: set[AbortedTransaction] = set()
    # Where the next run begins its own search goes on: what ends that one ends this one, too.
    for run, first, limit in zip(runs, firsts, [*firsts[1:], len(all_parts)], strict=True):
        found.update(_search(all_parts[first:limit], run.stop, objects, ask_leader, after=all_parts[limit : limit + 1]))
    return sorted(found)


def _runs(parts: Sequence[TierPart]) -> Iterator[range]:
    """Yield the offsets of parts, neighbours as one."""
    start = end = -1
    for part in parts:
        if part.start != end:
            if end > start:
                yield range(start, end)
            start = part.start
        end = part.end
    if end > start:
        yield range(start, end)


def _search(
    parts: Sequence[TierPart],
    end: int,
    objects: SegmentObjects,
    ask_leader: AskLeader | None,
    *,
    after: Sequence[TierPart],
) -> Iterator[AbortedTransaction]:
    """Yield what the markers from the first part on aborted, until nothing below `end` can be open any more."""
    at = 0
    upto = bisect_left(parts, end, key=attrgetter("start"))
    while at < len(parts):
        some = parts[at:upto]
        for number, entries in enumerate(objects.for_all(some, lambda part: _own_entries(part, objects)), at):
            yield from entries
            if any(entry.last_stable_offset >= end for entry in entries):
                return
            following = parts[number + 1 : number + 2] or after
            if ask_leader is not None and not (following and following[0].start == parts[number].end):
                yield from ask_leader(parts[number].end)
        at, upto = upto, min(upto + _STEP, len(parts))


def _own_entries(part: TierPart, objects: SegmentObjects) -> list[AbortedTransaction]:
    """Return the transactions whose markers a part has.

    The index of its segment may have others, from a tail that an unclean election took out of the history.
    """
    return [entry for entry in objects.aborted(part.segment) if part.start <= entry.last_offset < part.end]


class LeaderAborts:
    """Fetches aborted transactions from the leader of one partition; retries while a read may wait for a record."""

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
