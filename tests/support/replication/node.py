"""A broker of the model: a toy log, and the real state of a leader or a follower of the one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.replication.follower_state import (
    AppendFetched,
    AskLeaderRange,
    AskLeaderTier,
    CutFollowerLog,
    FetchAnswered,
    FetchFailed,
    FollowerAction,
    FollowerEvent,
    FollowerFetching,
    LeaderRangeKnown,
    LogChanged,
    RebuildFromTier,
    RestartLog,
    TakeLeaderOffsets,
)
from crabka.broker.replication.isr_state import ProposedIsr
from crabka.broker.replication.leader_state import LeaderLog, LeaderReplication, ReplicationLimits
from crabka.broker.replication.truncation import diverging_epoch
from crabka.errors import OperationError
from crabka.formats.leader_epochs import EpochEnd
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.metadata.image import MetadataImage
from crabka.metadata.topics import PartitionImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import partition_of
from tests.support.replication.invariants import check

Record = tuple[int, int]
MAX_FETCH_RECORDS = 3


@dataclass
class ToyLog:
    """Records as (epoch, value) from offset 0 on."""

    records: list[Record] = field(default_factory=list)
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    high_watermark: int = 0
    log_start_offset: int = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.lineage.end_offset_for(epoch, self.log_end_offset)

    def append(self, records: list[Record]) -> None:
        for epoch, value in records:
            self.epochs.assign(epoch, len(self.records))
            self.records.append((epoch, value))

    def truncate(self, end_offset: int) -> None:
        del self.records[end_offset:]
        self.epochs.truncate_from_end(end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)


@dataclass
class FetchExchange:
    """A fetch whose answer is on its way back."""

    answer: FetchAnswered
    records: list[Record]


@dataclass
class AlterExchange:
    """An ISR change on its way to the controller or back."""

    leader_epoch: int
    proposal: ProposedIsr
    members: list[tuple[int, int]]
    error_code: ErrorCode | None = None
    partition: PartitionImage | None = None


class ModelNode:
    """One broker. It knows the metadata that it received last, and nothing else."""

    def __init__(self, node_id: int, limits: ReplicationLimits, image: MetadataImage) -> None:
        self.node_id = node_id
        self.limits = limits
        self.image = image
        self.log = ToyLog()
        self.is_running = True
        self.wants_stop = False
        # Of the last run if it ended cleanly, else -1; sent when it registers.
        self.clean_epoch = -1
        self.leading: LeaderReplication | None = None
        self.following: FollowerFetching | None = None
        self.leader_epoch = -1
        self.fetch: FetchExchange | None = None
        self.alter: AlterExchange | None = None
        self.alter_held_until_ms = 0

    @property
    def broker_epoch(self) -> int:
        return self.image.cluster.brokers[self.node_id].epoch

    @property
    def leader_log(self) -> LeaderLog:
        return LeaderLog(self.log.log_end_offset, self.log.high_watermark)

    def learn(self, image: MetadataImage, now_ms: int) -> None:
        """Take over metadata: lead, follow, or neither."""
        self.image = image
        partition = partition_of(image)
        if self.node_id not in partition.replicas:
            self._forget_roles()
            return
        if partition.leader_epoch != self.leader_epoch:
            self._forget_roles()
            self.leader_epoch = partition.leader_epoch
            if partition.leader == self.node_id:
                self.log.epochs.assign(self.leader_epoch, self.log.log_end_offset)
                self.leading = LeaderReplication(
                    self.node_id, self.broker_epoch, partition, end_offset=self.log.log_end_offset, now_ms=now_ms
                )
            elif partition.leader >= 0:
                self.following = FollowerFetching(self.leader_epoch, backoff_ms=50)
        elif self.leading is not None:
            self.leading.published(partition, now_ms)

    def stop(self) -> None:
        """The process ends, however; what is in the log stays there."""
        self.is_running = self.wants_stop = False
        self._forget_roles()
        self.leader_epoch = -1

    def _forget_roles(self) -> None:
        self.leading = self.following = self.fetch = self.alter = None

    # As leader.

    def produce(self, value: int) -> int | None:
        """Append a record with acks=all; return where it ends, None if it was refused."""
        if self.leading is None:
            return None
        try:
            self.leading.require_min_isr(self.limits)
        except OperationError:
            return None
        self.log.append([(self.leader_epoch, value)])
        return self.log.log_end_offset

    def advance(self, now_ms: int) -> None:
        """Let the high watermark follow."""
        if self.leading is not None:
            brokers = self.image.cluster.brokers
            raised = self.leading.high_watermark(self.leader_log, brokers, self.limits, now_ms)
            check(self.log.high_watermark <= raised <= self.log.log_end_offset, "high watermark rises within the log")
            self.log.high_watermark = raised

    def propose(self, now_ms: int) -> bool:
        """Ask for another ISR if one is due; return whether one was."""
        if self.leading is None or self.alter is not None:
            return False
        proposal = self.leading.propose_shrinking(self.leader_log, self.limits, now_ms)
        for follower_id in self.leading.followers:
            if proposal is None:
                proposal = self.leading.propose_expansion(follower_id, self.leader_log, self.image.cluster.brokers)
        if proposal is not None:
            self.alter = AlterExchange(self.leader_epoch, proposal, self.leading.broker_epochs(proposal))
        return proposal is not None

    def serve(self, follower: ModelNode, now_ms: int) -> FetchExchange:
        """Answer a fetch."""
        assert follower.following is not None
        asked = follower.following.position(follower.log)
        if self.leading is None or asked.leader_epoch != self.leader_epoch:
            return FetchExchange(FetchAnswered(asked=asked, error_code=ErrorCode.not_leader_or_follower), [])
        try:
            diverging = diverging_epoch(
                self.log.end_offset_for_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                fetch_offset=asked.fetch_offset,
            )
            if diverging is not None:
                return FetchExchange(FetchAnswered(asked=asked, diverging=diverging), [])
            if asked.fetch_offset > self.log.log_end_offset:
                raise OperationError(ErrorCode.offset_out_of_range)
            fetch = FollowerFetch(asked.fetch_offset, 0, follower.broker_epoch)
            self.leading.fetched(follower.node_id, fetch, self.leader_log, now_ms)
        except OperationError as error:
            return FetchExchange(FetchAnswered(asked=asked, error_code=error.error_code), [])
        self.advance(now_ms)
        records = self.log.records[asked.fetch_offset : asked.fetch_offset + MAX_FETCH_RECORDS]
        answer = FetchAnswered(
            asked=asked, has_records=bool(records), high_watermark=self.log.high_watermark, log_start_offset=0
        )
        return FetchExchange(answer, records)

    # As follower.

    def receive(self, now_ms: int, leader_end_offset: int | None) -> None:
        """Take over the answer that is on its way; without a leader at hand its range is not to be had."""
        exchange, self.fetch = self.fetch, None
        if exchange is None or self.following is None:
            return
        events: list[FollowerEvent] = [exchange.answer]
        while events:
            for action in self.following.step(events.pop(), self.log, now_ms):
                done = self._carry_out(action, exchange.records, leader_end_offset)
                if done is not None:
                    events.append(done)

    def _carry_out(
        self, action: FollowerAction, records: list[Record], leader_end_offset: int | None
    ) -> FollowerEvent | None:
        match action:
            case AppendFetched(high_watermark, _):
                self.log.append(records)
                self.log.high_watermark = min(high_watermark, self.log.log_end_offset)
                return LogChanged()
            case TakeLeaderOffsets(high_watermark, _):
                self.log.high_watermark = high_watermark
                return None
            case CutFollowerLog(end_offset):
                self.log.truncate(end_offset)
                return LogChanged()
            case RestartLog() | AskLeaderTier() | RebuildFromTier():
                raise AssertionError("logs of the model begin at 0 and have no tier")
            case AskLeaderRange():
                return FetchFailed() if leader_end_offset is None else LeaderRangeKnown(0, leader_end_offset)
