"""The shell around the cores of all groups: finds a group, steps it, appends, answers, and keeps the timers.

Everything runs on the node's loop. The clock of sessions starts at the wall clock's time and never jumps, so that a
change of the wall clock ends no session. Offsets age by the wall clock.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from crabka.broker.coordinators.appender import Appender, AppendSettings, coordinator_error
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.coordinators.shards import ShardRegistry, partition_for
from crabka.broker.coordinators.timers import DeadlineQueue
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.catalog import TopicCatalog
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.consumer.runner import ConsumerRunner
from crabka.broker.groups.consumer.settings import consumer_settings
from crabka.broker.groups.member import NEVER
from crabka.broker.groups.membership import ClassicSettings, GroupState, Membership
from crabka.broker.groups.messages import (
    UNKNOWN_MEMBER,
    Action,
    Answer,
    Event,
    Heartbeat,
    Join,
    JoinResult,
    Leave,
    Persist,
    StaticMemberStored,
    Sync,
    Tick,
    Transitioned,
    failed,
)
from crabka.broker.groups.opaque import OpaqueGroup
from crabka.broker.groups.records import group_pair, offset_key
from crabka.broker.groups.replay import replay_batch
from crabka.broker.groups.shard import OFFSETS_TOPIC, GroupShard
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.groups.consumer.settings import ConsumerSettings
    from crabka.broker.groups.records import Pair
    from crabka.broker.groups.shard import AnyGroup, HostedShard
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.config.server import ServerConfig
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn

logger = logging.getLogger(__name__)

# Keeps batches of tombstones far below the largest batch of a topic.
TOMBSTONES_PER_BATCH = 1000
# Kafka gives these records a base sequence, although they have no producer.
_BASE_SEQUENCE = 0


class GroupCoordinator:
    """Groups of one node."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        partitions: PartitionRegistry,
        *,
        spawn: Spawn,
        config: Callable[[], ServerConfig],
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._spawn = spawn
        self._appender = Appender(runtime, logs, spawn, self._append_settings)
        self.shards = ShardRegistry(
            OFFSETS_TOPIC,
            runtime,
            partitions,
            spawn,
            replay=replay_batch,
            load_buffer_bytes=lambda: config().offsets_load_buffer_size,
        )
        self._wall_base_ms = runtime.clock.now_ms() - runtime.clock.monotonic_ms()
        self._deadlines = DeadlineQueue(self.now_ms)
        self.catalog = TopicCatalog()
        self.consumers = ConsumerRunner(self, self._deadlines)
        self._image: MetadataImage | None = None
        self._partition_count: int | None = None
        # The reason why there is no offsets topic is logged once.
        self.logged_missing_topic = False

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """Start to load the partitions that this node leads."""
        self._spawn(self._deadlines.run())
        self._image = image
        self.catalog.follow(image)
        self._follow(image)

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Follow the leadership of `__consumer_offsets`, and remove the offsets of deleted topics."""
        before = delta.image.topics.by_id
        deleted = {before[topic_id].name for topic_id in delta.topics_deleted if topic_id in before}
        topic = image.topics.by_name.get(OFFSETS_TOPIC)
        touched = delta.topics_created | delta.topics_changed
        self._image = image
        self.catalog.follow(image, touched | delta.topics_deleted)
        if OFFSETS_TOPIC in deleted or (topic is not None and topic.topic_id in touched):
            self._follow(image)
        if deleted:
            self._forget_topics(deleted)

    def close(self) -> None:
        """Answer all waiting members; this node coordinates no group from now on."""
        for hosted in self.shards.close():
            self._unload(hosted)

    def _follow(self, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(OFFSETS_TOPIC)
        self._partition_count = len(topic.partitions) if topic is not None else None
        config = self._config()
        settings = ClassicSettings(config.group_initial_rebalance_delay_ms, config.group_max_size)
        for lost in self.shards.follow_leadership(lambda: GroupShard(settings), self.now_ms, self._on_loaded):
            self._unload(lost)
        for hosted in self.shards:
            hosted.shard.attach(self.catalog, self.consumer_settings)

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """Return the settings of a consumer group."""
        return consumer_settings(self._config(), self._image, group_id)

    def _on_loaded(self, hosted: HostedShard) -> None:
        for group in hosted.shard.groups.values():
            if isinstance(group, ClassicGroup):
                group.membership.start_sessions(self.now_ms())
                self.arm_classic(hosted, group)
            elif isinstance(group, ConsumerGroup):
                self.consumers.start(hosted, group)

    def _unload(self, hosted: HostedShard) -> None:
        for group in list(hosted.shard.groups.values()):
            if isinstance(group, ClassicGroup):
                self.retire_classic(hosted, group, ErrorCode.not_coordinator)
            elif isinstance(group, ConsumerGroup):
                self.consumers.retire(hosted, group, ErrorCode.not_coordinator)

    def retire_classic(self, hosted: HostedShard, group: ClassicGroup, error_code: ErrorCode) -> None:
        """End a classic group on this node and answer waiting requests with the error."""
        self._execute(hosted, group, group.retire(error_code, self.now_ms()))

    def rebalance_classic(self, hosted: HostedShard, group: ClassicGroup, reason: str) -> None:
        """Require the members of a classic group to join again."""
        self._execute(hosted, group, group.rebalance(reason, self.now_ms()))
        self.arm_classic(hosted, group)

    def _append_settings(self) -> AppendSettings:
        config = self._config()
        return AppendSettings(config.offsets_topic_compression_codec, config.offsets_commit_timeout_ms, _BASE_SEQUENCE)

    # -- groups --------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time by which sessions end."""
        return self._wall_base_ms + self._runtime.clock.monotonic_ms()

    def partition_of(self, group_id: str) -> int:
        """Return the partition that keeps a group."""
        return partition_for(group_id, self._partition_count or self._config().offsets_topic_num_partitions)

    def shard_of(self, group_id: str) -> HostedShard:
        """Return the shard of a group. Raises OperationError if this node does not lead it or has not loaded it."""
        return self.shards.get(self.partition_of(group_id))

    def group(self, group_id: str) -> tuple[HostedShard, AnyGroup | None]:
        """Return the shard of a group and the group, if there is one. Raises OperationError as `shard_of`."""
        hosted = self.shard_of(group_id)
        group = hosted.shard.groups.get(group_id)
        exists = isinstance(group, ClassicGroup) or (group is not None and group.exists)
        return hosted, group if exists else None

    def joined_group(self, group_id: str) -> tuple[HostedShard, ClassicGroup | ConsumerGroup]:
        """Return a group that may have members with the classic protocol, and its shard.

        Raises OperationError: UNKNOWN_MEMBER_ID if there is none.
        """
        hosted, group = self.group(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise OperationError(ErrorCode.unknown_member_id)
        return hosted, group

    def create_group(self, hosted: HostedShard, group_id: str) -> ClassicGroup:
        """Return a new classic group; the caller adds it to the shard when its first step is accepted."""
        return ClassicGroup(Membership(group_id, hosted.shard.settings, self.now_ms()))

    # -- stepping ------------------------------------------------------------------------------------------------

    def step(self, hosted: HostedShard, group: ClassicGroup, event: Event) -> None:
        """Step a group and execute its actions."""
        self._execute(hosted, group, group.step(event, self.now_ms()))
        self.arm_classic(hosted, group)

    async def request(
        self,
        hosted: HostedShard,
        group: ClassicGroup | ConsumerGroup,
        make: Callable[[PendingReply], Join | Sync | Heartbeat | Leave],
    ) -> Any:
        """Step a group with a request of a classic member; wait for the answer and return it."""
        reply = PendingReply()
        event = make(reply)
        if isinstance(group, ConsumerGroup):
            self.consumers.step(hosted, group, event)
            return await self.consumers.wait(group, event)
        self.step(hosted, group, event)
        return await reply.wait()

    def ask(self, hosted: HostedShard, group: ClassicGroup, make: Callable[[PendingReply], Event]) -> Any:
        """Step a group with an event that has an immediate answer; return the answer."""
        reply = PendingReply()
        self.step(hosted, group, make(reply))
        return reply.result

    @property
    def store_timeout_ms(self) -> int:
        """Return how long a request waits for its records, which may be stored later all the same."""
        return self._config().offsets_commit_timeout_ms

    def append(self, hosted: HostedShard, pairs: Sequence[Pair], done: Callable[[ErrorCode], None]) -> None:
        """Append records to the partition of a shard; `done` gets the outcome, in the order of the log.

        That may be late: requests wait with `wait_stored`.
        """
        if hosted.is_active:
            self._appender.append(hosted.partition, pairs, done)
        else:
            done(ErrorCode.not_leader_or_follower)

    async def wait_stored(self, reply: PendingReply) -> ErrorCode:
        """Return the outcome of an append; REQUEST_TIMED_OUT if it is not known in time."""
        late = ErrorCode.request_timed_out
        return cast("ErrorCode", await reply.wait_in_time(self.store_timeout_ms, late))

    async def append_and_wait(self, hosted: HostedShard, pairs: Sequence[Pair]) -> ErrorCode:
        """Append records and return the outcome."""
        reply = PendingReply()
        self.append(hosted, pairs, reply.resolve)
        return await self.wait_stored(reply)

    def _execute(self, hosted: HostedShard, group: ClassicGroup, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Answer(reply, result):
                    reply.resolve(result)
                case Persist():
                    self._persist(hosted, group, action)
                case Transitioned(old, new, generation, reason):
                    logger.info("Group %r: %s -> %s, generation %d: %s", group.group_id, old, new, generation, reason)
        if group.state is GroupState.DEAD:
            self._deadlines.disarm(group)
            if hosted.is_active and hosted.shard.groups.get(group.group_id) is group:
                del hosted.shard.groups[group.group_id]

    def _persist(self, hosted: HostedShard, group: ClassicGroup, action: Persist) -> None:
        def done(error_code: ErrorCode) -> None:
            event = action.done
            if error_code is not ErrorCode.none:
                logger.warning("Cannot store group %r: %s", group.group_id, error_code.name)
                event = failed(event, coordinator_error(error_code))
            if group.state is not GroupState.DEAD:
                self.step(hosted, group, event)
            elif isinstance(event, StaticMemberStored):
                # Only this event has the reply.
                gone = ErrorCode.coordinator_not_available if hosted.is_active else ErrorCode.not_coordinator
                event.reply.resolve(JoinResult(gone, UNKNOWN_MEMBER))

        # A generation that is not stored in time is abandoned: the record of the next one replaces its record.
        pairs = [group_pair(group.group_id, action.snapshot)]
        if hosted.is_active:
            self._appender.append_in_time(hosted.partition, pairs, done)
        else:
            done(ErrorCode.not_leader_or_follower)

    def arm_classic(self, hosted: HostedShard, group: ClassicGroup) -> None:
        """Set the timer of a group to its first deadline."""
        deadline_ms = group.membership.deadline_ms
        if deadline_ms != NEVER and hosted.is_active and group.state is not GroupState.DEAD:
            self._deadlines.arm(group, deadline_ms, partial(self._on_deadline, hosted, group))

    def _on_deadline(self, hosted: HostedShard, group: ClassicGroup) -> None:
        if hosted.is_active and group.state is not GroupState.DEAD:
            self.step(hosted, group, Tick())

    # -- expiry and removal of offsets ---------------------------------------------------------------------------

    async def expire_offsets(self) -> None:
        """Remove expired offsets, and groups without members and offsets."""
        now_ms, retention_ms = self._runtime.clock.now_ms(), self._config().offsets_retention_minutes * 60_000
        for hosted in self.shards:
            for group_id in list(hosted.shard.groups) if hosted.is_active else ():
                if group_id in hosted.shard.groups:
                    self._expire_group(hosted, group_id, now_ms, retention_ms)
            await asyncio.sleep(0)

    def _expire_group(self, hosted: HostedShard, group_id: str, now_ms: int, retention_ms: int) -> None:
        places, group_goes = hosted.shard.expired(group_id, now_ms, retention_ms)
        if group_goes:
            logger.info("Group %r has no members and its offsets have expired: it is removed", group_id)
            self.remove_group(hosted, group_id, _ignore)
        elif places:
            self.remove_offsets(hosted, [(group_id, place) for place in places], _ignore)

    def _forget_topics(self, topics: set[str]) -> None:
        for hosted in self.shards:
            gone = list(hosted.shard.offsets.of_topics(topics)) if hosted.is_active else []
            for start in range(0, len(gone), TOMBSTONES_PER_BATCH):
                self.remove_offsets(hosted, gone[start : start + TOMBSTONES_PER_BATCH], _ignore)

    def remove_offsets(
        self, hosted: HostedShard, places: Sequence[tuple[str, tuple[str, int]]], done: Callable[[ErrorCode], None]
    ) -> None:
        """Write tombstones of offsets and remove the offsets once they are written."""

        def finish(error_code: ErrorCode) -> None:
            if error_code is ErrorCode.none:
                hosted.shard.forget_offsets(places)
            done(coordinator_error(error_code))

        self.append(hosted, [(offset_key(group_id, place), None) for group_id, place in places], finish)

    def remove_group(self, hosted: HostedShard, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Write the tombstones of a group and its offsets; no member can join it from now on."""
        shard = hosted.shard
        pairs = shard.tombstones(group_id)
        group, offsets = shard.groups[group_id], dict(shard.offsets.of_group(group_id))
        pending, places = shard.offsets.pending_of_group(group_id), shard.offsets.places_of_group(group_id)
        shard.forget(group_id)
        if isinstance(group, ClassicGroup):
            group.membership.enter(GroupState.DEAD, self.now_ms())
            self._deadlines.disarm(group)
        elif isinstance(group, ConsumerGroup):
            self.consumers.retire(hosted, group, ErrorCode.group_id_not_found)

        def finish(error_code: ErrorCode) -> None:
            if error_code is ErrorCode.none:
                # Also commits that were in flight when the group was removed: they are before the tombstones.
                shard.forget_offsets((group_id, place) for place in places)
            elif group_id not in shard.groups:
                # It is still in the log.
                shard.groups[group_id] = self._revived(hosted, group)
                for place, committed in offsets.items():
                    shard.offsets.put(group_id, place, committed)
                shard.offsets.restore_pending(group_id, pending)
            done(coordinator_error(error_code))

        self.append(hosted, pairs, finish)

    def _revived(self, hosted: HostedShard, group: AnyGroup) -> AnyGroup:
        if isinstance(group, OpaqueGroup):
            return group
        if isinstance(group, ConsumerGroup):
            twin = hosted.shard.consumer_group(group.group_id)
            twin.store.data = group.data
            return twin
        revived = self.create_group(hosted, group.group_id)
        revived.membership.restore(group.membership.snapshot({}), self.now_ms())
        return revived


def _ignore(_error_code: ErrorCode) -> None:
    """No request waits for records that the node writes by itself; the next expiry retries."""
