"""What a leader knows of one follower: how far it is and when it was last caught up (Kafka's Replica). PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
# Before any time of a clock, also of one that begins at 0.
NEVER_MS = -(2**62)


class FollowerFetch(NamedTuple):
    """A fetch of a follower: it has everything below `fetch_offset`."""

    fetch_offset: int
    log_start_offset: int
    # Sent since version 15 of Fetch (KIP-903).
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(slots=True)
class FollowerProgress:
    """One follower of a leader, from the beginning of the leader's epoch."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    # The last time at which it had everything that the leader had then.
    last_caught_up_ms: int = NEVER_MS
    # Of its last fetch: when it came, and where the log of the leader ended.
    last_fetch_ms: int = NEVER_MS
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    # How often in a row it has asked for what it was given already: it cannot use it, perhaps because it is damaged.
    repeated_count: int = 0
    # The high watermark of the last answer.
    sent_high_watermark: int = UNKNOWN_OFFSET

    def fetched(self, fetch: FollowerFetch, *, leader_end_offset: int, now_ms: int) -> None:
        """Take note of a fetch.

        A follower that fetches from where the leader ended at its fetch before was caught up at that time: under
        constant load no follower ever reaches the end as it is now.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) for a fetch of an older incarnation.
        """
        if NO_BROKER_EPOCH < fetch.broker_epoch < self.broker_epoch:
            raise OperationError(ErrorCode.not_leader_or_follower)
        if fetch.fetch_offset != self.log_end_offset or fetch.fetch_offset >= leader_end_offset:
            self.repeated_count = 0
        else:
            self.repeated_count += 1
        if fetch.fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch.fetch_offset >= self.last_fetch_leader_end_offset > UNKNOWN_OFFSET:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch.fetch_offset
        self.log_start_offset = fetch.log_start_offset
        self.broker_epoch = fetch.broker_epoch
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.last_fetch_leader_end_offset = leader_end_offset

    def stays_caught_up(self, leader_end_offset: int, now_ms: int) -> None:
        """Take note of a fetch like the one before, from the end of the leader's log."""
        self.last_caught_up_ms = self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.last_fetch_leader_end_offset = leader_end_offset

    def is_caught_up(self, *, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether it has everything, or had everything a short time ago (`replica.lag.time.max.ms`)."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
