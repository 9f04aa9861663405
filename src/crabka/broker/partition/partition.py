"""A partition that this node hosts: who leads it, appends of its leader, the high watermark.

Owns the rules that need both the log and the metadata. A partition without other replicas has the high watermark at
its log end and costs nothing more. One with other replicas keeps a `LeaderReplication` for each epoch that it leads
in. It knows nothing of requests or wire formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.partition.append_queue import AppendQueue
from crabka.broker.partition.followers import PartitionFollowers
from crabka.broker.partition.waiters import LEADERSHIP_LOST, PartitionWaiters
from crabka.broker.replication.host import NO_HOST
from crabka.broker.replication.leader_state import LeaderLog, LeaderReplication, ReplicationLimits
from crabka.errors import OperationError
from crabka.log.producers.producer_state import AppendOrigin
from crabka.log.producers.verification import ANY_TERMS, AppendTerms
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.replication.host import ReplicaHost
    from crabka.ids import TopicId
    from crabka.log.dirs.dir_writer import DirWriter
    from crabka.log.partition.append import AppendResult, PreparedBatch
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.metadata.topics import PartitionImage
    from crabka.ports import Buffer
    from crabka.records.header import BatchHeader


class RequiredOffset(NamedTuple):
    """An offset that replicas have to reach, and the leader epoch in which it was assigned.

    After another leader's epoch the log may have been cut below the offset and filled with other records.
    """

    offset: int
    leader_epoch: int
    # Whether it counts in later epochs of this leader as well, if no other node led in between: nothing was cut then.
    spans_epochs: bool = False


class Partition:
    """State of one hosted partition. Hashed and compared by identity."""

    __slots__ = (
        "_refusal",
        "awaits_tier",
        "followers",
        "host",
        "in_sync_count",
        "index",
        "is_leader",
        "leader_epoch",
        "leader_id",
        "led_since_epoch",
        "log",
        "queue",
        "replica_count",
        "replication",
        "topic",
        "topic_id",
        "waiters",
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
        self._refusal = ErrorCode.not_leader_or_follower
        self.queue = AppendQueue(self)
        self.waiters = PartitionWaiters(self)
        self.followers = PartitionFollowers(self)

    # -- appends -------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        terms: AppendTerms = ANY_TERMS,
        prepared: PreparedBatch | None = None,
    ) -> AppendResult:
        """Append one checked batch as leader and update the high watermark. See `queue` for appends that may wait.

        `now_ms` is the present time: an append that takes long makes its log dir slow. `prepared` is what the topic's
        settings make of the batch, if the caller knows that already. Raises OperationError with Kafka's code,
        StorageError when the disk fails.
        """
        result = self.log.append_as_leader(
            batch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            header=header,
            origin=origin,
            prepared=prepared,
            terms=terms,
        )
        writer = self.writer
        elapsed_ms = writer.now_ms() - now_ms
        if elapsed_ms > writer.slow_append_ms:
            writer.note_append(elapsed_ms)
        if not result.duplicate:
            self.note_append(len(batch))
        return result

    def note_append(self, appended_bytes: int) -> None:
        """Update the high watermark and notify waiters after an append of this leader."""
        replication, waiters = self.replication, self.waiters
        if replication is None:
            # The only replica in sync is this one: what it holds is replicated.
            self.log.set_high_watermark(self.log.state.log_end_offset)
            if waiters.for_readable:
                waiters.notify(appended_bytes)
            return
        waiters.note_led_append(appended_bytes)
        # An append is not on any other replica yet: while there is one to wait for, nothing can have moved.
        if replication.stands_alone:
            self.update_high_watermark()

    # -- leadership ----------------------------------------------------------------------------------------------

    def become(self, image: PartitionImage, *, node_id: int, broker_epoch: int = -1, now_ms: int = 0) -> None:
        """Take over leader, epoch, replicas and ISR from the metadata; the time is of the host's clock.

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
            self.waiters.notify(LEADERSHIP_LOST)
        if self.is_leader and image.replicas != (node_id,):
            self._lead_others(image, node_id, broker_epoch, new_epoch=new_epoch, now_ms=now_ms)
            return
        self.replication = None
        self.in_sync_count = len(image.isr)
        self.replica_count = len(image.replicas)
        if self.is_leader and led_others:
            self._stay_alone()
        elif self.is_leader:
            self.note_append(0)
        elif was_leader:
            self.retire()
        if not self.is_leader and new_epoch:
            self.waiters.begin_count()

    def _lead_others(
        self, image: PartitionImage, node_id: int, broker_epoch: int, *, new_epoch: bool, now_ms: int
    ) -> None:
        log, replication = self.log, self.replication
        if replication is None or new_epoch:
            # Replicas that are added to a lone one come after what that has committed.
            start_offset = log.next_append_offset if new_epoch else log.high_watermark
            replication = LeaderReplication(node_id, broker_epoch, image, end_offset=start_offset, now_ms=now_ms)
            self.replication = replication
            self.waiters.begin_count()
            self.waiters.release_followers()
        else:
            replication.published(image, now_ms)
        self.in_sync_count = len(replication.isr_state.isr)
        self.replica_count = len(replication.followers) + 1
        self.update_high_watermark(now_ms)

    def _stay_alone(self) -> None:
        """Go on as the only replica that is left."""
        self.waiters.release_followers()
        self.log.set_high_watermark(self.log.log_end_offset)
        self.waiters.notify_high_watermark()

    def retire(self, refusal: ErrorCode = ErrorCode.not_leader_or_follower) -> None:
        """Stop leading: requests that wait here are answered now.

        `refusal` is the error of appends that still wait for their turn.
        """
        self.is_leader = False
        self.replication = None
        self._refusal = refusal
        self.waiters.notify_leadership_lost()

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this node leads the partition in the epoch that the client knows (KIP-320)."""
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
        """Return whether an offset still names the same records as when it was required."""
        if required.leader_epoch == self.leader_epoch:
            return self.is_leader
        return required.spans_epochs and self.has_led_since(required.leader_epoch)

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Raise unless the epoch that a client knows is the present one; -1 is any."""
        if self.awaits_tier:
            raise OperationError(ErrorCode.not_leader_or_follower)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise OperationError(ErrorCode.fenced_leader_epoch)
            raise OperationError(ErrorCode.unknown_leader_epoch)

    # -- high watermark ------------------------------------------------------------------------------------------

    def require_min_isr(self) -> None:
        """Raise if an acks=all append would be on fewer replicas than the topic demands.

        The minimum is capped by the number of replicas, as Kafka does.
        """
        minimum = self.log.state.config.min_insync_replicas
        if self.in_sync_count < minimum and self.in_sync_count < self.replica_count:
            raise OperationError(ErrorCode.not_enough_replicas)

    @property
    def limits(self) -> ReplicationLimits:
        """Return the present settings of replication."""
        return ReplicationLimits(self.log.config.min_insync_replicas, self.host.max_lag_ms())

    def acknowledgement(self, required: RequiredOffset) -> ErrorCode | None:
        """Return the result of an acks=all append that ends at an offset; None if it has to wait.

        An offset of another epoch has no meaning: NOT_LEADER_OR_FOLLOWER, the producer retries where the leader is.
        """
        if not self.is_led_for(required):
            return ErrorCode.not_leader_or_follower
        high_watermark = self.log.high_watermark
        if high_watermark < required.offset:
            return None
        if self.replication is not None:
            return self.replication.acknowledgement(required.offset, high_watermark, self.limits)
        return ErrorCode.none

    def update_high_watermark(self, now_ms: int | None = None) -> None:
        """Raise the high watermark as far as the followers of a led partition allow, and notify waiters."""
        replication, log, host = self.replication, self.log, self.host
        if replication is None:
            return
        now_ms = host.now_ms() if now_ms is None else now_ms
        place = LeaderLog(log.log_end_offset, log.high_watermark)
        reached = replication.high_watermark(place, host.brokers(), self.limits, now_ms)
        if reached > place.high_watermark:
            log.set_high_watermark(reached)
        self.waiters.notify_high_watermark()
