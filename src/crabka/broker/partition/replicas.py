"""A hosted partition as one of its replicas: who leads it, how far the high watermark is, who waits for it to move.

A partition without other replicas has the high watermark at its log end and costs nothing more. One with other replicas
keeps a `LeaderReplication` for each epoch that it leads in. It knows nothing of requests or wire formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.broker.replication.host import NO_HOST
from crabka.broker.replication.leader_state import LeaderLog, LeaderReplication, ReplicationLimits
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import asyncio

    from crabka.broker.partition.purgatory import Delayed
    from crabka.broker.replication.host import ReplicaHost
    from crabka.ids import TopicId
    from crabka.log.dirs.dir_writer import DirWriter
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.metadata.topics import PartitionImage

# What waiters are poked with instead of readable bytes when the epoch of this leader has ended.
LEADERSHIP_LOST: Final = -1


class RequiredOffset(NamedTuple):
    """An offset that replicas have to reach, and the leader epoch that gives it its meaning.

    After another leader's epoch the log may have been cut below the offset and filled with other records.
    """

    offset: int
    leader_epoch: int
    # Whether it counts in later epochs of this leader as well, if nobody else led in between: nothing was cut then.
    spans_epochs: bool = False


class PartitionReplicas:
    """Leadership, high watermark and waiters of one partition."""

    __slots__ = (
        "_high_watermark_told",
        "_refusal",
        "_replica_waiters",
        "_turn",
        "_unreadable_bytes",
        "_waiters",
        "awaits_tier",
        "host",
        "in_sync_count",
        "index",
        "is_leader",
        "leader_epoch",
        "leader_id",
        "led_since_epoch",
        "log",
        "pending_outcomes",
        "queued",
        "replica_count",
        "replication",
        "topic",
        "topic_id",
        "verifying",
        "writer",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: TopicId,
        log: PartitionLog,
        writer: DirWriter,
        *,
        host: ReplicaHost = NO_HOST,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.writer = writer
        self.host = host
        self.leader_id = -1
        self.leader_epoch = -1
        self.is_leader = False
        # The first epoch of the present leadership; without meaning while another node leads.
        self.led_since_epoch = -1
        # Whether this node is to lead and must not yet: the remote tier may hold more of the log than this disk.
        self.awaits_tier = False
        self.in_sync_count = 0
        self.replica_count = 0
        # What is known of the other replicas; None unless this one leads and there are others.
        self.replication: LeaderReplication | None = None
        # In the order of arrival, which is the order of the answers.
        self._waiters: dict[Delayed[Any], None] = {}
        # Followers that wait for appends, whatever the high watermark does.
        self._replica_waiters: dict[Delayed[Any], None] = {}
        # Bytes above the high watermark that waiters were told of; not counted without other replicas.
        self._unreadable_bytes = 0
        self._high_watermark_told = 0
        # Batches on their way through a thread; while there are any, every append must queue behind them.
        self.queued = 0
        # The last batch of each transactional producer that waits for its coordinator: the next one goes behind it.
        self.verifying: dict[int, asyncio.Future[None]] = {}
        # Appends of the node itself whose outcome was not delivered yet: those of later ones must not overtake them.
        self.pending_outcomes = 0
        self._refusal = ErrorCode.not_leader_or_follower
        self._turn: asyncio.Lock | None = None

    # -- leadership ----------------------------------------------------------------------------------------------

    def become(self, image: PartitionImage, *, node_id: int, broker_epoch: int = -1, now_ms: int = 0) -> None:
        """Take over what the metadata says of leader, epoch, replicas and ISR; the time is of the host's clock.

        A new leader epoch of a leader is recorded in the epoch cache before the first append under it.
        """
        self.awaits_tier = False
        was_leader, led_others = self.is_leader, self.replication is not None
        new_epoch = image.leader_epoch != self.leader_epoch
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.is_leader = image.leader == node_id
        if self.is_leader and new_epoch:
            self.log.leader_epochs.assign(self.leader_epoch, self.log.next_append_offset)
        if self.is_leader and not was_leader:
            self.led_since_epoch = self.leader_epoch
        elif self.is_leader and new_epoch:
            self._end_epoch()
        if self.is_leader and image.replicas != (node_id,):
            self._lead_others(image, node_id, broker_epoch, new_epoch=new_epoch, now_ms=now_ms)
            return
        self.replication = None
        self.in_sync_count = len(image.isr)
        self.replica_count = len(image.replicas)
        if self.is_leader and led_others:
            self._stay_alone()
        elif self.is_leader:
            self._advance_high_watermark(0)
        elif was_leader:
            self.retire()
        if not self.is_leader and new_epoch:
            self._begin_count()

    def _lead_others(
        self, image: PartitionImage, node_id: int, broker_epoch: int, *, new_epoch: bool, now_ms: int
    ) -> None:
        log = self.log
        replication = self.replication
        if replication is None or new_epoch:
            # Replicas that are added to a lone one come after what that has committed.
            start_offset = log.next_append_offset if new_epoch else log.high_watermark
            replication = LeaderReplication(node_id, broker_epoch, image, end_offset=start_offset, now_ms=now_ms)
            self.replication = replication
            self._begin_count()
            # They fetch under another epoch, or from what was no leader of others before.
            for waiter in tuple(self._replica_waiters):
                waiter.trigger()
        else:
            replication.published(image, now_ms)
        self.in_sync_count = len(replication.isr_state.isr)
        self.replica_count = len(replication.followers) + 1
        self.advance_high_watermark(now_ms)

    def _stay_alone(self) -> None:
        """Go on as the only replica that is left."""
        for waiter in tuple(self._replica_waiters):
            waiter.trigger()
        self.log.set_high_watermark(self.log.log_end_offset)
        self._tell_high_watermark()

    def _end_epoch(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.progressed(self, LEADERSHIP_LOST)

    def retire(self, refusal: ErrorCode = ErrorCode.not_leader_or_follower) -> None:
        """Stop leading: whoever waits here is answered now, with what can be said then.

        `refusal` is what appends get that still wait for their turn.
        """
        self.is_leader = False
        self.replication = None
        self._refusal = refusal
        for waiter in (*self._waiters, *self._replica_waiters):
            waiter.progressed(self, LEADERSHIP_LOST)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this node leads the partition in the epoch that the client believes in (KIP-320)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            self.require_epoch(current_leader_epoch)
        if not self.is_leader:
            raise OperationError(self._refusal)

    def has_led_since(self, leader_epoch: int) -> bool:
        """Return whether this node leads since an epoch without interruption: what it appended then was not cut."""
        return self.is_leader and self.led_since_epoch <= leader_epoch

    def require_led_since(self, leader_epoch: int) -> None:
        """Raise unless this node leads since an epoch without interruption."""
        if not self.has_led_since(leader_epoch):
            raise OperationError(self._refusal if not self.is_leader else ErrorCode.not_leader_or_follower)

    def is_led_for(self, required: RequiredOffset) -> bool:
        """Return whether an offset still means what it meant when it was required."""
        if required.leader_epoch == self.leader_epoch:
            return self.is_leader
        return required.spans_epochs and self.has_led_since(required.leader_epoch)

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Raise unless the epoch that a client believes in is the present one; -1 is any."""
        if self.awaits_tier:
            raise OperationError(ErrorCode.not_leader_or_follower)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise OperationError(ErrorCode.fenced_leader_epoch)
            raise OperationError(ErrorCode.unknown_leader_epoch)

    def require_min_isr(self) -> None:
        """Raise if an acks=all append would not be as safe as the topic demands.

        The minimum is capped by the number of replicas, as Kafka does.
        """
        minimum = min(self.log.config.min_insync_replicas, self.replica_count)
        if self.in_sync_count < minimum:
            raise OperationError(ErrorCode.not_enough_replicas)

    # -- waiters -------------------------------------------------------------------------------------------------

    @property
    def waiter_count(self) -> int:
        """Return how many requests wait for this partition."""
        return len(self._waiters) + len(self._replica_waiters)

    def add_waiter(self, waiter: Delayed[Any]) -> None:
        """Poke this waiter from now on: when the high watermark moves or, if it wants that, on every append."""
        (self._replica_waiters if waiter.waits_for_appends else self._waiters)[waiter] = None

    def remove_waiter(self, waiter: Delayed[Any]) -> None:
        """Forget a waiter; unknown ones are fine."""
        (self._replica_waiters if waiter.waits_for_appends else self._waiters).pop(waiter, None)

    def release_waiters(self) -> None:
        """Let whoever waits here be answered now."""
        for waiter in (*self._waiters, *self._replica_waiters):
            waiter.trigger()

    def note_progress(self, appended_bytes: int) -> None:
        """Tell who waits that this follower appended, or took over a higher high watermark, or both."""
        self._unreadable_bytes += appended_bytes
        self._tell_high_watermark()

    # -- high watermark ------------------------------------------------------------------------------------------

    @property
    def limits(self) -> ReplicationLimits:
        """Return the settings that replication goes by now."""
        return ReplicationLimits(self.log.config.min_insync_replicas, self.host.max_lag_ms())

    def acknowledgement(self, required: RequiredOffset) -> ErrorCode | None:
        """Return what to answer to an acks=all append that ends at an offset; None if it has to wait.

        An offset of another epoch says nothing: NOT_LEADER_OR_FOLLOWER, the producer retries where the leader is.
        """
        if not self.is_led_for(required):
            return ErrorCode.not_leader_or_follower
        high_watermark = self.log.high_watermark
        if high_watermark < required.offset:
            return None
        if self.replication is not None:
            return self.replication.acknowledgement(required.offset, high_watermark, self.limits)
        return ErrorCode.none

    def advance_high_watermark(self, now_ms: int | None = None) -> None:
        """Let the high watermark of a led partition rise as far as its replicas allow, and tell who waits for it."""
        replication, log, host = self.replication, self.log, self.host
        if replication is None:
            return
        now_ms = host.now_ms() if now_ms is None else now_ms
        place = LeaderLog(log.log_end_offset, log.high_watermark)
        reached = replication.high_watermark(place, host.brokers(), self.limits, now_ms)
        if reached > place.high_watermark:
            log.set_high_watermark(reached)
        self._tell_high_watermark()

    def _advance_high_watermark(self, appended_bytes: int) -> None:
        """Follow an append of this leader."""
        if self.replication is not None:
            self._appended_for_others(appended_bytes, self.replication)
            return
        # The only replica in sync is this one: what it holds is replicated.
        log = self.log
        log.set_high_watermark(log.log_end_offset)
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.progressed(self, appended_bytes)

    def _appended_for_others(self, appended_bytes: int, replication: LeaderReplication) -> None:
        self._unreadable_bytes += appended_bytes
        for waiter in tuple(self._replica_waiters):
            waiter.progressed(self, appended_bytes)
        # An append is not on any other replica yet: while there is one to wait for, nothing can have moved.
        if replication.stands_alone:
            self.advance_high_watermark()

    def _begin_count(self) -> None:
        log = self.log
        self._high_watermark_told = log.high_watermark
        # How much lies above it is not known: what there is at most is taken for it.
        self._unreadable_bytes = log.size_bytes if log.high_watermark < log.log_end_offset else 0

    def _tell_high_watermark(self) -> None:
        """Poke the waiters if the high watermark rose, with the bytes that became readable.

        How many of the unreadable bytes that is goes by the share of their offsets, until it is all of them.
        """
        log = self.log
        high_watermark, before = log.high_watermark, self._high_watermark_told
        self._high_watermark_told = high_watermark
        if high_watermark <= before:
            return
        readable = self._unreadable_bytes
        if high_watermark < log.log_end_offset:
            readable = readable * (high_watermark - before) // (log.log_end_offset - before)
        self._unreadable_bytes -= readable
        for waiter in tuple(self._waiters):
            waiter.progressed(self, max(1, readable))
        for waiter in tuple(self._replica_waiters):
            waiter.high_watermark_rose()
