"""Makes the node do what the metadata says: opens, creates, reconfigures and deletes logs, leads, follows.

Of a change it looks only at the topics that the delta names, and of these at partitions that are not the same object as
before: a node with ten thousand partitions gets one at a time. It is called with every change in order, on the
node's loop, after `preparation` has created the logs in threads (`metadata_pipeline`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from crabka.broker.partition.partition import Partition
from crabka.errors import StorageError
from crabka.ids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, TopicPartition
from crabka.log.dirs.log_manager import NewLog
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from crabka.broker.logdirs.choices import RememberedChoices
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.replication.fetchers import ReplicaFetchers
    from crabka.config.topic import TopicConfig
    from crabka.ids import TopicId
    from crabka.log.dirs.dir_writer import DirWriter
    from crabka.log.dirs.log_manager import LogManager
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

logger = logging.getLogger(__name__)

# LOST is no such state: it says that the replica was in a dir that is gone.
_NOT_A_DIRECTORY = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
_NO_LEADER = -1
# At some ten microseconds each a turn of the loop takes some milliseconds.
PARTITIONS_PER_TURN: Final = 200


class TierEvents(Protocol):
    """Notifications of hosted partitions for tiering."""

    def on_leadership(self, partition: Partition) -> None:
        """A partition is led or followed here, or that its settings changed."""
        ...

    def on_stop(self, partition: Partition, *, is_deleted: bool) -> None:
        """A partition is not hosted here any more, because its topic is deleted or it moved away."""
        ...

    def bring_to_tier_end(self, partition: Partition, on_settled: Callable[[], None]) -> None:
        """Let a log that may lack its end begin after what the tier holds; call `on_settled` when it may be led.

        The other two methods end that.
        """
        ...


class StopListener(Protocol):
    """Notifications of hosted partitions for moves between log dirs."""

    def on_stop(self, partition: Partition) -> None:
        """A partition is not hosted here any more."""
        ...


class MetadataPublisher:
    """Applies metadata to the logs, partitions and fetchers of one node."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        partitions: PartitionRegistry,
        *,
        topic_config: Callable[[MetadataImage, str], TopicConfig],
        fetchers: ReplicaFetchers | None = None,
        tiering: TierEvents | None = None,
        moves: StopListener | None = None,
        choices: RememberedChoices | None = None,
        broker_epoch: Callable[[], int] = lambda: -1,
        now_ms: Callable[[], int] = lambda: 0,
        make_partition: Callable[[str, int, TopicId, PartitionLog, DirWriter], Partition] = Partition,
    ) -> None:
        """Without fetchers the node follows no leader. `now_ms` is the clock that replication goes by.

        `tiering` is notified of every hosted partition; a node without a remote tier has none. `moves` is notified of
        partitions that go, and `choices` knows log dirs that were chosen for partitions to come.
        """
        self._node_id = node_id
        self._logs = logs
        self._partitions = partitions
        self._topic_config = topic_config
        self._fetchers = fetchers
        self._tiering = tiering
        self._moves = moves
        self._choices = choices
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._make_partition = make_partition
        # What the metadata says of partitions that are led here once the tier's end is known.
        self._awaiting_tier: dict[Partition, PartitionImage] = {}
        # Partitions whose logs could not be created because the process had no descriptor left.
        self._unopened: dict[tuple[TopicId, int], None] = {}
        # Those of them that the change under way opens.
        self._retried: list[tuple[TopicId, int]] = []
        # New topics of the change under way that are hosted already.
        self._hosted: set[TopicId] = set()

    def preparation(
        self, delta: MetadataChanges, image: MetadataImage
    ) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return what creates the logs that a change places here, in threads; None if it places none."""
        before = delta.image.topics.by_id
        wanted = self._missing_retried(image)
        for topic_id in self._present(delta.topics_created | delta.topics_changed, image):
            known = before.get(topic_id)
            wanted += self._missing(image, image.topics.by_id[topic_id], {} if known is None else known.partitions)
        return functools.partial(self._create_and_host, delta, image, wanted) if wanted else None

    async def _create_and_host(self, delta: MetadataChanges, image: MetadataImage, wanted: list[NewLog]) -> None:
        """Create logs, and host the partitions of new topics in turns of the loop: there may be ten thousand.

        The image names them already, and no other listener gets the change before all are here. Partitions of topics
        that were known change all at once, with the change itself. So do all if topics go: one of them may have the
        name of a new one.
        """
        await self._logs.create_all(wanted)
        if delta.topics_deleted:
            return
        for topic_id in self._present(delta.topics_created, image):
            await self._host_in_turns(image, image.topics.by_id[topic_id])
            self._hosted.add(topic_id)

    async def _host_in_turns(self, image: MetadataImage, topic: TopicImage) -> None:
        placed = [(index, each) for index, each in topic.partitions.items() if self._node_id in each.replicas]
        for count, (index, partition_image) in enumerate(placed, start=1):
            self._host(image, topic, index, partition_image, is_new=partition_image.leader_epoch == 0)
            if count % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _missing(
        self, image: MetadataImage, topic: TopicImage, known: Mapping[int, PartitionImage]
    ) -> Iterator[NewLog]:
        """Yield the logs of a topic that are to be here, are not, and are not in a dir that failed."""
        config: TopicConfig | None = None
        for index, partition_image in topic.partitions.items():
            if partition_image is known.get(index) or self._node_id not in partition_image.replicas:
                continue
            topic_partition = TopicPartition(topic.name, index)
            is_here = self._partitions.get(topic.name, index) or self._logs.get(topic_partition)
            if is_here or self._is_out_of_reach(topic, topic_partition, partition_image):
                continue
            config = config or self._topic_config(image, topic.name)
            log_dir = self._chosen_dir(topic_partition) or self._assigned_dir(partition_image)
            yield NewLog(topic_partition, topic.topic_id, config, log_dir)

    @property
    def has_unopened(self) -> bool:
        """Whether partitions have no log because there was no descriptor for it."""
        return bool(self._unopened)

    def retry_unopened(self) -> None:
        """Let the next change, which may be empty, create the logs that could not be created before."""
        self._retried, self._unopened = [*self._retried, *self._unopened], {}

    def _missing_retried(self, image: MetadataImage) -> list[NewLog]:
        wanted: list[NewLog] = []
        for topic, indexes in self._retried_in(image):
            for index in indexes:
                self._partitions.forget_offline(topic.name, topic.topic_id, index)
            known = {index: each for index, each in topic.partitions.items() if index not in indexes}
            wanted += self._missing(image, topic, known)
        return wanted

    def _retried_in(self, image: MetadataImage) -> Iterator[tuple[TopicImage, set[int]]]:
        """Yield topics with the partitions to be opened now that are still placed here."""
        by_topic: dict[TopicId, set[int]] = {}
        for topic_id, index in self._retried:
            by_topic.setdefault(topic_id, set()).add(index)
        for topic_id, indexes in by_topic.items():
            topic = image.topics.by_id.get(topic_id)
            if topic is not None:
                placed = topic.partitions
                yield topic, {each for each in indexes if each in placed and self._node_id in placed[each].replicas}

    async def publish_all(self, image: MetadataImage) -> None:
        """Take over a whole image, at start. Logs that it does not place here are set aside.

        The others were opened with the settings of an older image, maybe long ago: they get those of this one.

        A long image is taken over in turns of the loop; nothing else may change the partitions meanwhile.
        """
        topics = list(image.topics.by_id.values())
        await self._logs.create_all([each for topic in topics for each in self._missing(image, topic, {})])
        count = 0
        for topic in topics:
            self._host_topic(image, topic, {}, at_start=True)
            self._take_config(image, topic.name)
            count += len(topic.partitions)
            if count >= PARTITIONS_PER_TURN:
                count = 0
                await asyncio.sleep(0)
        for each in self._logs:
            if self._partitions.get(each.topic, each.partition) is None:
                self._logs.mark_stray(each.topic_partition)
        if self._fetchers is not None:
            self._fetchers.read_throttle(image)

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Take over a change."""
        before = delta.image.topics.by_id
        for topic_id in delta.topics_deleted:
            self._delete_topic(before[topic_id])
        for topic_id in self._present((delta.topics_created | delta.topics_changed) - self._hosted, image):
            known = before.get(topic_id)
            self._host_topic(image, image.topics.by_id[topic_id], {} if known is None else known.partitions)
        for topic, indexes in self._retried_in(image):
            for index in sorted(indexes):
                # Others may have led it meanwhile.
                self._host(image, topic, index, topic.partitions[index], is_new=False)
        self._retried.clear()
        self._hosted.clear()
        self._reconfigure(delta, image)
        if self._fetchers is not None:
            self._fetchers.on_metadata(delta, image)

    @staticmethod
    def _present(topic_ids: Iterable[TopicId], image: MetadataImage) -> list[TopicId]:
        return [topic_id for topic_id in topic_ids if topic_id in image.topics.by_id]

    def _host_topic(
        self,
        image: MetadataImage,
        topic: TopicImage,
        known: Mapping[int, PartitionImage],
        *,
        at_start: bool = False,
    ) -> None:
        """Take over the partitions of a topic that are not as they were known."""
        node_id = self._node_id
        for index, partition_image in topic.partitions.items():
            previous = known.get(index)
            if partition_image is previous:
                continue
            if node_id in partition_image.replicas:
                is_new = previous is None and not at_start and partition_image.leader_epoch == 0
                self._host(image, topic, index, partition_image, is_new=is_new)
            elif previous is not None and node_id in previous.replicas:
                self._leave(topic, index)

    def _host(
        self, image: MetadataImage, topic: TopicImage, index: int, partition_image: PartitionImage, *, is_new: bool
    ) -> None:
        partition = self._partitions.get(topic.name, index) or self._open(image, topic, index, partition_image)
        if partition is None:
            return
        if is_new:
            # It has had no leader before, so the tier has nothing of it.
            partition.log.durability.trust_end()
        self._take_role(partition, partition_image)

    def _take_role(self, partition: Partition, partition_image: PartitionImage) -> None:
        fetchers = self._fetchers
        follows = partition_image.leader not in (self._node_id, _NO_LEADER)
        if fetchers is not None and not follows:
            # Nothing that was fetched counts any more from here on.
            fetchers.unfollow(partition)
        if self._must_await_tier(partition, partition_image):
            return
        partition.become(
            partition_image, node_id=self._node_id, broker_epoch=self._broker_epoch(), now_ms=self._now_ms()
        )
        if fetchers is not None and follows:
            fetchers.follow(partition)
        if self._tiering is not None:
            self._tiering.on_leadership(partition)

    def _must_await_tier(self, partition: Partition, partition_image: PartitionImage) -> bool:
        """Return whether a partition cannot be led yet since its log may lack what the tier holds; see to that.

        Until then it refuses as one that is led elsewhere, which clients try again.
        """
        leads = partition_image.leader == self._node_id
        if not leads or self._tiering is None or partition.is_leader or not partition.log.durability.may_be_short:
            self._awaiting_tier.pop(partition, None)
            return False
        is_waiting = partition in self._awaiting_tier
        self._awaiting_tier[partition] = partition_image
        partition.awaits_tier = True
        if not is_waiting:
            self._tiering.bring_to_tier_end(partition, lambda: self._on_settled(partition))
        return True

    def _on_settled(self, partition: Partition) -> None:
        """Lead a partition whose log reaches to the end of the tier."""
        partition_image = self._awaiting_tier.pop(partition, None)
        if partition_image is not None:
            partition.log.durability.trust_end()
            self._take_role(partition, partition_image)

    def _leave(self, topic: TopicImage, index: int) -> None:
        """Give up a replica that was moved elsewhere: its data is on others, and Kafka deletes it here, too."""
        partition = self._partitions.get(topic.name, index)
        if partition is not None:
            self._drop(partition)
        self._partitions.forget_offline(topic.name, topic.topic_id, index)

    def _drop(self, partition: Partition, *, is_deleted: bool = False) -> None:
        if self._fetchers is not None:
            self._fetchers.unfollow(partition)
        self._awaiting_tier.pop(partition, None)
        if self._tiering is not None:
            self._tiering.on_stop(partition, is_deleted=is_deleted)
        if self._moves is not None:
            self._moves.on_stop(partition)
        self._partitions.remove(partition)
        partition.retire()
        self._logs.delete_later(TopicPartition(partition.topic, partition.index))

    def _open(
        self, image: MetadataImage, topic: TopicImage, index: int, partition_image: PartitionImage
    ) -> Partition | None:
        topic_partition = TopicPartition(topic.name, index)
        opened = self._logs.get(topic_partition)
        if opened is not None and not opened.healing.adopt(topic.topic_id):
            # It belongs to an older topic of that name.
            self._logs.mark_stray(topic_partition)
            opened = None
        if opened is None:
            if self._is_out_of_reach(topic, topic_partition, partition_image):
                # The replica lies in a dir that is not there: an empty new log would pass for its data.
                self._partitions.add_offline(topic.name, topic.topic_id, index)
                return None
            config = self._topic_config(image, topic.name)
            assigned = self._assigned_dir(partition_image)
            opened = self._create(topic_partition, topic.topic_id, config, assigned)
            if opened is None:
                self._partitions.add_offline(topic.name, topic.topic_id, index)
                return None
        writer = self._logs.writer(opened.log_dir)
        partition = self._make_partition(topic.name, index, topic.topic_id, opened, writer)
        self._partitions.add(partition)
        return partition

    def _create(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, assigned: str | None
    ) -> PartitionLog | None:
        """Create a log; None if its disk fails. Where no dir is assigned, each failure leaves another one to try."""
        log_dir = self._chosen_dir(topic_partition) or assigned
        for _ in range(len(self._logs.online_dirs)):
            try:
                return self._logs.create(topic_partition, topic_id, config, log_dir)
            except StorageError as error:
                if self._logs.descriptors.is_exhausted(error):
                    self._unopened[topic_id, topic_partition.partition] = None
                    return None
                self._logs.on_dir_failure(error.log_dir, error)
                if assigned is not None and assigned not in self._logs.online_dirs:
                    break
                log_dir = assigned
        return None

    def _is_out_of_reach(
        self, topic: TopicImage, topic_partition: TopicPartition, partition_image: PartitionImage
    ) -> bool:
        is_offline = self._partitions.is_offline(topic.topic_id, topic_partition.partition)
        return is_offline or topic_partition in self._logs.withheld or self._is_lost(partition_image)

    def _is_lost(self, partition_image: PartitionImage) -> bool:
        """Return whether a replica may be in a dir that cannot be read now.

        With all dirs at hand its dir is gone for good, as after a disk was replaced: the replica begins anew, and is
        not in sync before it has caught up (Kafka's LogManager.getOrCreateLog).
        """
        if not self._logs.offline_dirs:
            return False
        directory = partition_image.directory_of(self._node_id)
        return directory not in _NOT_A_DIRECTORY and directory not in self._logs.online_directory_ids

    def _chosen_dir(self, topic_partition: TopicPartition) -> str | None:
        """Return the log dir that AlterReplicaLogDirs named before the replica was here; it wins, as in Kafka."""
        chosen = None if self._choices is None else self._choices.take(topic_partition)
        return chosen if chosen in self._logs.online_dirs else None

    def _assigned_dir(self, partition_image: PartitionImage) -> str | None:
        directory = partition_image.directory_of(self._node_id)
        return next((path for path in self._logs.online_dirs if self._logs.directory_id(path) == directory), None)

    def _delete_topic(self, topic: TopicImage) -> None:
        for partition in list(self._partitions.of_topic(topic.name).values()):
            self._drop(partition, is_deleted=True)
        self._partitions.forget_offline(topic.name, topic.topic_id)

    def _reconfigure(self, delta: MetadataChanges, image: MetadataImage) -> None:
        topics: dict[str, None] = {}
        for resource_type, name in delta.configs_changed:
            if resource_type == ConfigResourceType.TOPIC:
                topics[name] = None
            elif resource_type == ConfigResourceType.BROKER and name in ("", str(self._node_id)):
                topics.update((partition.topic, None) for partition in self._partitions)
        for topic in topics:
            self._take_config(image, topic)

    def _take_config(self, image: MetadataImage, topic: str) -> None:
        """Let the logs of a topic run with the settings of an image."""
        config: TopicConfig | None = None
        for partition in list(self._partitions.of_topic(topic).values()):
            config = config or self._topic_config(image, topic)
            if partition.log.config == config:
                continue
            try:
                partition.log.update_config(config)
            except StorageError as error:
                self._logs.on_dir_failure(error.log_dir, error)
            else:
                if partition in self._awaiting_tier:
                    # A topic that is not tiered any more has nothing to wait for.
                    self._take_role(partition, self._awaiting_tier[partition])
                elif self._tiering is not None:
                    self._tiering.on_leadership(partition)
