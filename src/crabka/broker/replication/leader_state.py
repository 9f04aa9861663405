"""Replication as the leader of a partition decides on it: high watermark, ISR, acknowledgements (Kafka's Partition).

Owns nothing but the progress of the followers and the ISR; the log, the metadata and time come in. One object lives
for one leader epoch. PURE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.replication.follower_progress import (
    NEVER_MS,
    NO_BROKER_EPOCH,
    FollowerFetch,
    FollowerProgress,
)
from crabka.broker.replication.isr_state import IsrState
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.broker.replication.isr_state import ProposedIsr
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.topics import PartitionImage


class LeaderLog(NamedTuple):
    """The log of the leader at this moment."""

    end_offset: int
    high_watermark: int


class ReplicationLimits(NamedTuple):
    """Settings that replication goes by."""

    min_insync_replicas: int = 1
    # `replica.lag.time.max.ms`.
    max_lag_ms: int = 30_000


class LeaderReplication:
    """The replicas of a partition, led by this node in one epoch."""

    def __init__(
        self, node_id: int, broker_epoch: int, partition: PartitionImage, *, end_offset: int, now_ms: int
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        # Where the leader's epoch began: what lies before it may not be committed yet.
        self.epoch_start_offset = end_offset
        self._replica_count = len(partition.replicas)
        self.isr_state = IsrState(partition)
        self._followers: dict[int, FollowerProgress] = {}
        self._set_followers(partition, now_ms)

    @property
    def followers(self) -> Mapping[int, FollowerProgress]:
        """All replicas but this one."""
        return self._followers

    @property
    def stands_alone(self) -> bool:
        """Return whether no other replica is or may be in the ISR: an append alone may move the high watermark."""
        state = self.isr_state
        return len(state.isr) == 1 and state.pending is None

    def published(self, partition: PartitionImage, now_ms: int) -> None:
        """Take over metadata of the same leader epoch: another ISR, or replicas that come or go."""
        if self.isr_state.published(partition):
            self._replica_count = len(partition.replicas)
            self._set_followers(partition, now_ms)

    def fetched(self, follower_id: int, fetch: FollowerFetch, log: LeaderLog, now_ms: int) -> None:
        """Take note of a follower's fetch.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if it is no replica or an older incarnation of one.
        """
        follower = self._followers.get(follower_id)
        if follower is None:
            raise OperationError(ErrorCode.not_leader_or_follower)
        follower.fetched(fetch, leader_end_offset=log.end_offset, now_ms=now_ms)

    def high_watermark(
        self, log: LeaderLog, brokers: Mapping[int, BrokerRegistration], limits: ReplicationLimits, now_ms: int
    ) -> int:
        """Return the high watermark as it can be now; it never falls.

        It waits for the maximal ISR, and for those who are about to join it, because otherwise a fast leader would
        never let them. Below min ISR it stands still: what it has passed must survive on that many replicas (KIP-966).
        """
        if self.is_under_min_isr(limits):
            return log.high_watermark
        maximal = self.isr_state.maximal_isr
        reached = log.end_offset
        for follower_id, follower in self._followers.items():
            if follower.log_end_offset >= reached:
                continue
            if follower_id in maximal or (
                follower.is_caught_up(leader_end_offset=log.end_offset, now_ms=now_ms, max_lag_ms=limits.max_lag_ms)
                and self._is_eligible(follower_id, brokers)
            ):
                reached = follower.log_end_offset
        return max(log.high_watermark, reached)

    def propose_expansion(
        self, follower_id: int, log: LeaderLog, brokers: Mapping[int, BrokerRegistration]
    ) -> ProposedIsr | None:
        """Return the ISR with one more follower, if it may join; the caller sends it to the controller.

        It must have everything that is committed, and something of this leader's epoch or the place where that began,
        or it might have to cut its log after it joined.
        """
        state = self.isr_state
        follower = self._followers.get(follower_id)
        if state.pending is not None or follower is None or follower_id in state.isr:
            return None
        is_in_sync = follower.log_end_offset >= max(log.high_watermark, self.epoch_start_offset)
        if not is_in_sync or not self._is_eligible(follower_id, brokers):
            return None
        return state.propose((*state.isr, follower_id))

    def propose_shrinking(self, log: LeaderLog, limits: ReplicationLimits, now_ms: int) -> ProposedIsr | None:
        """Return the ISR without those who have not been caught up for too long, if there are any."""
        state = self.isr_state
        if state.pending is not None:
            return None
        remaining = tuple(each for each in state.isr if not self._is_out_of_sync(each, log, limits, now_ms))
        return None if remaining == state.isr else state.propose(remaining)

    def low_watermark(self, log_start_offset: int, brokers: Mapping[int, BrokerRegistration]) -> int:
        """Return the lowest log start of all replicas whose broker lives: below it, records are gone everywhere."""
        low_watermark = log_start_offset
        for follower_id, follower in self._followers.items():
            broker = brokers.get(follower_id)
            if broker is not None and not broker.fenced:
                low_watermark = min(low_watermark, follower.log_start_offset)
        return low_watermark

    def broker_epochs(self, proposal: ProposedIsr) -> list[tuple[int, int]]:
        """Return the members of a proposal with the epochs under which they fetched, for AlterPartition (KIP-903)."""
        return [(each, self._epoch_of(each)) for each in proposal.isr]

    def is_under_min_isr(self, limits: ReplicationLimits) -> bool:
        """Return whether fewer replicas are in sync than the topic demands, capped by the number of replicas."""
        return len(self.isr_state.isr) < min(limits.min_insync_replicas, self._replica_count)

    def require_min_isr(self, limits: ReplicationLimits) -> None:
        """Raise OperationError (NOT_ENOUGH_REPLICAS) if an append with acks=all would not be safe."""
        if self.is_under_min_isr(limits):
            raise OperationError(ErrorCode.not_enough_replicas)

    def acknowledgement(self, end_offset: int, high_watermark: int, limits: ReplicationLimits) -> ErrorCode | None:
        """Return what to answer to an append with acks=all that ends at an offset; None if it has to wait."""
        if high_watermark < end_offset:
            return None
        needed = min(limits.min_insync_replicas, self._replica_count)
        is_safe = len(self.isr_state.maximal_isr) >= needed
        return ErrorCode.none if is_safe else ErrorCode.not_enough_replicas_after_append

    def _set_followers(self, partition: PartitionImage, now_ms: int) -> None:
        for replica in partition.replicas:
            if replica != self._node_id and replica not in self._followers:
                # Who is in sync has as much time to fetch as one that was caught up just now.
                caught_up_ms = now_ms if replica in partition.isr else NEVER_MS
                self._followers[replica] = FollowerProgress(last_caught_up_ms=caught_up_ms)
        for gone in self._followers.keys() - set(partition.replicas):
            del self._followers[gone]

    def _is_out_of_sync(self, replica: int, log: LeaderLog, limits: ReplicationLimits, now_ms: int) -> bool:
        follower = self._followers.get(replica)
        return follower is not None and not follower.is_caught_up(
            leader_end_offset=log.end_offset, now_ms=now_ms, max_lag_ms=limits.max_lag_ms
        )

    def _is_eligible(self, replica: int, brokers: Mapping[int, BrokerRegistration]) -> bool:
        """No fenced, stopping or replaced incarnation joins (KIP-841, KIP-903); the controller checks it again."""
        broker = brokers.get(replica)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        return self._epoch_of(replica) in (NO_BROKER_EPOCH, broker.epoch)

    def _epoch_of(self, replica: int) -> int:
        if replica == self._node_id:
            return self._broker_epoch
        follower = self._followers.get(replica)
        return NO_BROKER_EPOCH if follower is None else follower.broker_epoch
