"""Fetching as the follower of a partition decides on it: what to fetch next, where to cut, when to wait.

One object lives for one leader epoch of one partition: `step(event, log, now_ms) -> actions`. A fetcher asks `is_ready`
and `position`, puts many partitions into one Fetch, and hands each its part of the answer. The log is looked at and
never touched: actions say what shall happen to it, and `LogChanged` reports that it did. PURE.

Kafka: AbstractFetcherThread, with truncation by the diverging epochs of Fetch 12 and newer (KIP-595) alone. What the
leader has in the remote tier only is not fetched: the log begins anew behind it (TierStateMachine, KIP-405).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from crabka.broker.replication.truncation import truncation_offset
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.formats.leader_epochs import EpochEnd

_WITHOUT_ERROR = ErrorCode.none
# The leader has not heard yet what this follower knows, which is a matter of milliseconds.
_METADATA_ON_ITS_WAY = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
    }
)
_FIRST_DELAY_MS = 20


class FollowerLog(Protocol):
    """What a decision must know of the follower's own log."""

    @property
    def log_start_offset(self) -> int:
        """Where it begins."""

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""

    @property
    def high_watermark(self) -> int:
        """Up to where it knows records as committed."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, -1 without records or epochs."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above the given one and where it ends."""


class FetchPhase(Enum):
    """What a follower does."""

    FETCHING = "fetching"
    # Its log is being cut, or appended to: nothing is fetched meanwhile.
    CHANGING = "changing"
    # The offset is outside of the leader's log: where that begins and ends is being asked for.
    OUT_OF_RANGE = "out of range"
    # It shares no record with the leader's log: where that begins is being asked for.
    PARTED = "parted"
    # The leader has the offset in the remote tier only: where its own records begin is being asked for.
    MOVED_TO_TIER = "moved to tier"
    DELAYED = "delayed"
    # Nothing more in this leader epoch.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FollowerPosition:
    """The state of its log that a follower sends to the leader."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """The part of a Fetch response for this partition, with the position that was asked for."""

    asked: FollowerPosition
    error_code: ErrorCode = _WITHOUT_ERROR
    diverging: EpochEnd | None = None
    has_records: bool = False
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """The connection to the leader failed."""


@dataclass(frozen=True, slots=True)
class LogChanged:
    """The append or cut that an action asked for is done."""


@dataclass(frozen=True, slots=True)
class LogRejected:
    """The fetched records could not be appended: they are damaged or do not fit."""


@dataclass(frozen=True, slots=True)
class LogBroken:
    """The log dir failed."""


@dataclass(frozen=True, slots=True)
class LeaderRangeKnown:
    """Where the log of the leader begins and ends."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LeaderTierKnown:
    """Where the log of the leader begins, and the last record before those that a follower can fetch from it."""

    log_start_offset: int
    last_offset: int
    last_epoch: int


FollowerEvent: TypeAlias = (
    FetchAnswered | FetchFailed | LogChanged | LogRejected | LogBroken | LeaderRangeKnown | LeaderTierKnown
)


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append the records of the answer, take over these offsets of the leader, then report LogChanged.

    The high watermark is never above the log end.
    """

    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class TakeLeaderOffsets:
    """Take over offsets of the leader: its answer had no records."""

    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class CutFollowerLog:
    """Cut the log so that it ends at an offset, then report LogChanged."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class RestartLog:
    """Drop the whole log and begin anew at an offset, then report LogChanged."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class AskLeaderRange:
    """Ask the leader for its start and end offset (ListOffsets), then report LeaderRangeKnown or FetchFailed."""


@dataclass(frozen=True, slots=True)
class AskLeaderTier:
    """Ask the leader from where on it has records itself (ListOffsets), then report LeaderTierKnown or FetchFailed."""


@dataclass(frozen=True, slots=True)
class RebuildFromTier:
    """Begin anew after the remote segment that holds a record, with the history up to there, then report LogChanged."""

    log_start_offset: int
    last_offset: int
    last_epoch: int


FollowerAction: TypeAlias = (
    AppendFetched | TakeLeaderOffsets | CutFollowerLog | RestartLog | AskLeaderRange | AskLeaderTier | RebuildFromTier
)


class FollowerFetching:
    """One partition that follows a leader in one epoch."""

    def __init__(self, leader_epoch: int, *, backoff_ms: int) -> None:
        self._leader_epoch = leader_epoch
        self._backoff_ms = backoff_ms
        self._delayed_until_ms = 0
        # Of the next answer that says that the leader knows less than this follower; doubles in a row of them.
        self._brief_delay_ms = _FIRST_DELAY_MS
        self.phase = FetchPhase.FETCHING

    def is_ready(self, now_ms: int) -> bool:
        """Return whether the next Fetch should ask for this partition."""
        if self.phase is FetchPhase.DELAYED and now_ms >= self._delayed_until_ms:
            self.phase = FetchPhase.FETCHING
        return self.phase is FetchPhase.FETCHING

    @property
    def delayed_until_ms(self) -> int | None:
        """When to look again; None unless delayed."""
        return self._delayed_until_ms if self.phase is FetchPhase.DELAYED else None

    def position(self, log: FollowerLog) -> FollowerPosition:
        """Return what to ask for. The epoch of the last record lets the leader see whether the logs have parted."""
        return FollowerPosition(self._leader_epoch, log.log_end_offset, log.last_epoch)

    def step(self, event: FollowerEvent, log: FollowerLog, now_ms: int) -> list[FollowerAction]:
        """Take an event and say what to do."""
        if self.phase is FetchPhase.STOPPED:
            return []
        match event:
            case FetchAnswered():
                return self._answered(event, log, now_ms)
            case LogChanged():
                self.phase = FetchPhase.FETCHING
            case FetchFailed() | LogRejected():
                self._delay(now_ms, self._backoff_ms)
            case LogBroken():
                self.phase = FetchPhase.STOPPED
            case LeaderTierKnown(log_start_offset, last_offset, last_epoch):
                if self.phase is FetchPhase.MOVED_TO_TIER:
                    self.phase = FetchPhase.CHANGING
                    return [RebuildFromTier(log_start_offset, last_offset, last_epoch)]
            case LeaderRangeKnown(start_offset, end_offset):
                return self._back_into_range(log, now_ms, start_offset=start_offset, end_offset=end_offset)
            case _:
                assert_never(event)
        return []

    def _answered(self, answer: FetchAnswered, log: FollowerLog, now_ms: int) -> list[FollowerAction]:
        if self.phase is not FetchPhase.FETCHING or answer.asked != self.position(log):
            # It answers a question that is not the present one: the log has changed since.
            return []
        match answer.error_code:
            case ErrorCode.none:
                return self._fetched(answer, log)
            case ErrorCode.offset_out_of_range:
                self.phase = FetchPhase.OUT_OF_RANGE
                return [AskLeaderRange()]
            case ErrorCode.offset_moved_to_tiered_storage:
                self.phase = FetchPhase.MOVED_TO_TIER
                return [AskLeaderTier()]
            case ErrorCode.fenced_leader_epoch:
                # A newer leader epoch exists. Metadata brings it and makes a new follower of this replica.
                self.phase = FetchPhase.STOPPED
                return []
            case error_code if error_code in _METADATA_ON_ITS_WAY:
                self._delay_briefly(now_ms)
                return []
            case _:
                self._delay(now_ms, self._backoff_ms)
                return []

    def _fetched(self, answer: FetchAnswered, log: FollowerLog) -> list[FollowerAction]:
        self._brief_delay_ms = _FIRST_DELAY_MS
        if answer.diverging is not None:
            end_offset = truncation_offset(
                answer.diverging,
                log.end_offset_for_epoch,
                log_end_offset=log.log_end_offset,
                high_watermark=log.high_watermark,
            )
            if self._parts_at_start(log, end_offset):
                self.phase = FetchPhase.PARTED
                return [AskLeaderRange()]
            self.phase = FetchPhase.CHANGING
            return [CutFollowerLog(end_offset)]
        if not answer.has_records:
            return [TakeLeaderOffsets(min(answer.high_watermark, log.log_end_offset), answer.log_start_offset)]
        self.phase = FetchPhase.CHANGING
        return [AppendFetched(answer.high_watermark, answer.log_start_offset)]

    @staticmethod
    def _parts_at_start(log: FollowerLog, end_offset: int) -> bool:
        """Return whether a cut would leave nothing of a log whose start has moved.

        What lies below its start was deleted in another history than the leader's. Cut there, it would begin after
        records that the leader holds, and be in sync without them. So it takes over where the leader's log begins.
        """
        return 0 < log.log_start_offset >= end_offset

    def _back_into_range(
        self, log: FollowerLog, now_ms: int, *, start_offset: int, end_offset: int
    ) -> list[FollowerAction]:
        if self.phase not in {FetchPhase.PARTED, FetchPhase.OUT_OF_RANGE}:
            return []
        if not 0 <= start_offset <= end_offset:
            # No log has that range, and nothing is dropped for it.
            self._delay(now_ms, self._backoff_ms)
            return []
        if self.phase is FetchPhase.PARTED:
            self.phase = FetchPhase.CHANGING
            return [RestartLog(start_offset)]
        own_end = log.log_end_offset
        if end_offset < own_end:
            # The leader was elected uncleanly and has less. It decides what counts.
            self.phase = FetchPhase.CHANGING
            return [RestartLog(start_offset) if self._parts_at_start(log, end_offset) else CutFollowerLog(end_offset)]
        if start_offset > own_end:
            self.phase = FetchPhase.CHANGING
            return [RestartLog(start_offset)]
        # The leader has moved on meanwhile and the offset is in range. If it says otherwise again, there is no hurry.
        self._delay_briefly(now_ms)
        if self._brief_delay_ms <= 2 * _FIRST_DELAY_MS:
            self.phase = FetchPhase.FETCHING
        return []

    def _delay_briefly(self, now_ms: int) -> None:
        self._delay(now_ms, min(self._brief_delay_ms, self._backoff_ms))
        self._brief_delay_ms = min(2 * self._brief_delay_ms, max(self._backoff_ms, 4 * _FIRST_DELAY_MS))

    def _delay(self, now_ms: int, delay_ms: int) -> None:
        self.phase = FetchPhase.DELAYED
        self._delayed_until_ms = now_ms + delay_ms
