"""The leader's side of replication: progress of followers, ISR, low watermark, preferred replicas, throttle.

`LeaderReplication` decides. This module reads the log, the clock and the metadata for it, and applies its decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.replication.closest_replica import ReplicaView, closest_replica
from crabka.broker.replication.isr_state import ProposalFate
from crabka.broker.replication.leader_state import LeaderLog
from crabka.broker.replication.throttle import is_throttled_replica, may_move
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.follower_progress import FollowerFetch
    from crabka.broker.replication.isr_state import ProposedIsr
    from crabka.metadata.topics import PartitionImage


# Repeats of the same fetch after which the log is checked: a check is cheap, but not after each fetch.
_SUSPICIOUS_REPEATS: Final = frozenset({3, 30, 300, 3000})


class PartitionFollowers:
    """The followers of one partition."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def fetched(self, follower_id: int, fetch: FollowerFetch) -> None:
        """Record how far a follower is: the high watermark may rise, and the follower may join the ISR.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if an older incarnation of it fetches (KIP-903).
        """
        partition = self._partition
        replication, log, host = partition.replication, partition.log, partition.host
        follower = None if replication is None else replication.followers.get(follower_id)
        if replication is None or follower is None:
            raise OperationError(ErrorCode.not_leader_or_follower)
        brokers, now_ms = host.brokers(), host.now_ms()
        registered = brokers.get(follower_id)
        if registered is not None and -1 < fetch.broker_epoch < registered.epoch:
            raise OperationError(ErrorCode.not_leader_or_follower)
        before, start_before = follower.log_end_offset, follower.log_start_offset
        place = LeaderLog(log.log_end_offset, log.high_watermark)
        replication.fetched(follower_id, fetch, place, now_ms)
        proposal = replication.propose_expansion(follower_id, place, brokers)
        if proposal is not None:
            host.propose(partition, proposal)
        if fetch.fetch_offset != before:
            partition.update_high_watermark(now_ms)
        elif follower.repeated_count in _SUSPICIOUS_REPEATS and fetch.fetch_offset >= log.local_log_start_offset:
            reason = f"broker {follower_id} fetches offset {fetch.fetch_offset} repeatedly without progress"
            log.healing.report_damage_at(fetch.fetch_offset, reason)
        if fetch.log_start_offset > start_before:
            partition.waiters.notify(0)

    def is_still_caught_up(self, follower_id: int, fetch: FollowerFetch) -> bool:
        """Return whether a follower in sync fetches again from the log end, where all is committed; record it if so.

        It is the short form of `fetched` for the many partitions of a fetch without any change. The history of such a
        follower was compared when it came to this offset in this leader epoch.
        """
        partition = self._partition
        replication = partition.replication
        if replication is None:
            return False
        follower = replication.followers.get(follower_id)
        end_offset = partition.log.log_end_offset
        if (
            follower is None
            or follower.log_end_offset != end_offset
            or partition.log.high_watermark != end_offset
            or fetch != (end_offset, follower.log_start_offset, follower.broker_epoch)
            or follower_id not in replication.isr_state.isr
        ):
            return False
        registered = partition.host.brokers().get(follower_id)
        if registered is None or registered.epoch > fetch.broker_epoch >= 0:
            return False
        follower.stays_caught_up(end_offset, partition.host.now_ms())
        return True

    def require(self, follower_id: int, current_leader_epoch: int) -> None:
        """Raise unless a broker is another replica of this led partition.

        A caller that sends an epoch has newer metadata than this node, as in Kafka.
        """
        partition = self._partition
        replication = partition.replication
        if replication is None or follower_id not in replication.followers:
            knows_epoch = current_leader_epoch >= 0
            raise OperationError(
                ErrorCode.unknown_leader_epoch if knows_epoch else ErrorCode.not_leader_or_follower,
                f"broker {follower_id} is no replica of {partition.topic}-{partition.index} "
                f"in leader epoch {partition.leader_epoch}",
            )

    def shrink_isr(self) -> None:
        """Propose an ISR without followers that lag for too long; they no longer hold back the high watermark."""
        partition = self._partition
        replication, log, host = partition.replication, partition.log, partition.host
        if replication is None:
            return
        now_ms = host.now_ms()
        place = LeaderLog(log.log_end_offset, log.high_watermark)
        proposal = replication.propose_shrinking(place, partition.limits, now_ms)
        if proposal is not None:
            host.propose(partition, proposal)
        partition.update_high_watermark(now_ms)

    def isr_answered(
        self, proposal: ProposedIsr, error_code: ErrorCode, image: PartitionImage | None = None
    ) -> ProposalFate:
        """Apply the controller's response to a proposal, before the metadata has it."""
        partition = self._partition
        replication = partition.replication
        if replication is None:
            return ProposalFate.OUTDATED
        outcome = replication.isr_state.answered(proposal, error_code, image)
        if outcome in (ProposalFate.COMMITTED, ProposalFate.REVERTED):
            partition.in_sync_count = len(replication.isr_state.isr)
            partition.update_high_watermark()
        return outcome

    def low_watermark(self) -> int:
        """Return the lowest log start of all living replicas; that of the log if there are no others."""
        partition = self._partition
        log_start_offset = partition.log.log_start_offset
        if partition.replication is None:
            return log_start_offset
        return partition.replication.low_watermark(log_start_offset, partition.host.brokers())

    def closest(self, client_rack: str, fetch_offset: int) -> int | None:
        """Return the broker that a consumer in a rack should rather fetch from (KIP-392), None if that is this one."""
        partition = self._partition
        replication = partition.replication
        if replication is None or not client_rack:
            return None
        brokers, now_ms = partition.host.brokers(), partition.host.now_ms()
        racks = {broker_id: broker.rack for broker_id, broker in brokers.items() if not broker.fenced}
        views = [
            ReplicaView(
                follower_id,
                racks.get(follower_id),
                follower.log_start_offset,
                follower.log_end_offset,
                now_ms - follower.last_caught_up_ms,
            )
            for follower_id, follower in replication.followers.items()
        ]
        log, leader_id = partition.log, partition.leader_id
        views.append(ReplicaView(leader_id, racks.get(leader_id), log.log_start_offset, log.log_end_offset))
        return closest_replica(
            views,
            leader_id=leader_id,
            isr=replication.isr_state.isr,
            client_rack=client_rack,
            fetch_offset=fetch_offset,
        )

    def may_send_to(self, follower_id: int) -> bool:
        """Return whether records may go to a follower now; one in sync is never throttled (KIP-73)."""
        partition = self._partition
        replication, host = partition.replication, partition.host
        if replication is None or host.throttle.bytes_per_second is None:
            return True
        return may_move(
            host.throttle,
            is_throttled=self.is_throttled,
            is_in_sync=follower_id in replication.isr_state.isr,
            now_ms=host.now_ms(),
        )

    @property
    def is_throttled(self) -> bool:
        """Return whether the topic's settings name this replica as one whose sending is throttled."""
        partition = self._partition
        setting = partition.log.config.leader_replication_throttled_replicas
        return bool(setting) and is_throttled_replica(setting, partition.index, partition.leader_id)
