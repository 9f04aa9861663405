"""What a partition that is led here does for its followers: progress, ISR, low watermark, preferred replicas, throttle.

`LeaderReplication` decides; here the log, the clock and the metadata are looked up, and what is decided is carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.partition.replicas import PartitionReplicas
from crabka.broker.replication.closest_replica import ReplicaView, closest_replica
from crabka.broker.replication.isr_state import ProposalFate
from crabka.broker.replication.leader_state import LeaderLog
from crabka.broker.replication.throttle import is_throttled_replica, may_move
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.replication.follower_progress import FollowerFetch
    from crabka.broker.replication.isr_state import ProposedIsr
    from crabka.metadata.topics import PartitionImage


# A follower that asks so often for the same has a reason; a check is cheap, but not after each of its fetches.
_SUSPICIOUS_REPEATS: Final = frozenset({3, 30, 300, 3000})


class PartitionFollowers(PartitionReplicas):
    """The leader's side of replication."""

    __slots__ = ()

    def follower_fetched(self, follower_id: int, fetch: FollowerFetch) -> None:
        """Take note of how far a follower is: the high watermark may rise, and the follower may join the ISR.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if an older incarnation of it fetches (KIP-903).
        """
        replication, log, host = self.replication, self.log, self.host
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
            host.propose(self, proposal)
        if fetch.fetch_offset != before:
            self.advance_high_watermark(now_ms)
        elif follower.repeated_count in _SUSPICIOUS_REPEATS and fetch.fetch_offset >= log.local_log_start_offset:
            reason = f"broker {follower_id} fetches offset {fetch.fetch_offset} without getting on"
            log.report_damage_at(fetch.fetch_offset, reason)
        if fetch.log_start_offset > start_before:
            self._tell_low_watermark()

    def is_still_caught_up(self, follower_id: int, fetch: FollowerFetch) -> bool:
        """Return whether a follower in sync fetches again from the log end, where all is committed, and note it if so.

        It is the short way of `follower_fetched` for the many partitions of a fetch of which there is nothing to say.
        The history of such a follower was compared when it came to this offset in this leader epoch.
        """
        replication = self.replication
        if replication is None:
            return False
        follower = replication.followers.get(follower_id)
        end_offset = self.log.log_end_offset
        if (
            follower is None
            or follower.log_end_offset != end_offset
            or self.log.high_watermark != end_offset
            or fetch != (end_offset, follower.log_start_offset, follower.broker_epoch)
            or follower_id not in replication.isr_state.isr
        ):
            return False
        registered = self.host.brokers().get(follower_id)
        if registered is None or registered.epoch > fetch.broker_epoch >= 0:
            return False
        follower.stays_caught_up(end_offset, self.host.now_ms())
        return True

    def require_follower(self, follower_id: int, current_leader_epoch: int) -> None:
        """Raise unless a broker is another replica of this led partition.

        Who knows the epoch is of metadata that has not come here yet, as Kafka answers it.
        """
        replication = self.replication
        if replication is None or follower_id not in replication.followers:
            knows_epoch = current_leader_epoch >= 0
            raise OperationError(
                ErrorCode.unknown_leader_epoch if knows_epoch else ErrorCode.not_leader_or_follower,
                f"broker {follower_id} is no replica of {self.topic}-{self.index} in leader epoch {self.leader_epoch}",
            )

    def shrink_isr(self) -> None:
        """Propose an ISR without those who have lagged for too long; those who just left hold nothing back any more."""
        replication, log, host = self.replication, self.log, self.host
        if replication is None:
            return
        now_ms = host.now_ms()
        proposal = replication.propose_shrinking(LeaderLog(log.log_end_offset, log.high_watermark), self.limits, now_ms)
        if proposal is not None:
            host.propose(self, proposal)
        self.advance_high_watermark(now_ms)

    def isr_answered(
        self, proposal: ProposedIsr, error_code: ErrorCode, image: PartitionImage | None = None
    ) -> ProposalFate:
        """Take over what the controller answered to a proposal, before the metadata tells it."""
        replication = self.replication
        if replication is None:
            return ProposalFate.OUTDATED
        fate = replication.isr_state.answered(proposal, error_code, image)
        if fate in (ProposalFate.COMMITTED, ProposalFate.REVERTED):
            self.in_sync_count = len(replication.isr_state.isr)
            self.advance_high_watermark()
        return fate

    def low_watermark(self) -> int:
        """Return the lowest log start of all living replicas; that of the log if there are no others."""
        log_start_offset = self.log.log_start_offset
        if self.replication is None:
            return log_start_offset
        return self.replication.low_watermark(log_start_offset, self.host.brokers())

    def _tell_low_watermark(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.low_watermark_rose(self)

    def closest_replica(self, client_rack: str, fetch_offset: int) -> int | None:
        """Return the broker that a consumer in a rack should rather fetch from (KIP-392), None if that is this one."""
        replication = self.replication
        if replication is None or not client_rack:
            return None
        brokers, now_ms = self.host.brokers(), self.host.now_ms()
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
        log = self.log
        views.append(ReplicaView(self.leader_id, racks.get(self.leader_id), log.log_start_offset, log.log_end_offset))
        return closest_replica(
            views,
            leader_id=self.leader_id,
            isr=replication.isr_state.isr,
            client_rack=client_rack,
            fetch_offset=fetch_offset,
        )

    def may_send_to(self, follower_id: int) -> bool:
        """Return whether records may go to a follower now; one in sync is never throttled (KIP-73)."""
        replication = self.replication
        if replication is None or self.host.throttle.bytes_per_second is None:
            return True
        return may_move(
            self.host.throttle,
            is_throttled=self.is_throttled,
            is_in_sync=follower_id in replication.isr_state.isr,
            now_ms=self.host.now_ms(),
        )

    @property
    def is_throttled(self) -> bool:
        """Return whether the topic's settings name this replica as one whose sending is throttled."""
        setting = self.log.config.leader_replication_throttled_replicas
        return bool(setting) and is_throttled_replica(setting, self.index, self.leader_id)
