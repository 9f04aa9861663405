"""Writes the data dir of a node that begins with the topics of a tier: what `crabka recover` leaves behind.

The metadata of the new cluster is in `bootstrap.checkpoint`: topics under their old ids, with this node as the only
replica, kept for ever unless an operator changes that. Local logs are empty and begin where the tier ends; what the
tier holds is reported to brokers by events in `__remote_log_metadata`. Crabka and Apache Kafka start on it alike.
A transaction that was open at the end of the tier cannot be committed any more, since its coordinator is gone: the
local log begins with the marker that aborts it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from crabka.errors import ConfigError
from crabka.formats import file_names as naming
from crabka.formats.checkpoints import encode_epochs
from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.ids import TopicPartition
from crabka.log.dirs.log_dir import CheckpointOffsets, LogDir
from crabka.log.producers.snapshots import decode_snapshot
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.records import ConfigRecord, PartitionRecord, ProducerIdsRecord, TopicRecord
from crabka.quorum.formatting import FormatPlan, plan_format, write_format
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.record import Record
from crabka.remote.recovery import RecoverablePartition, RecoverableTopic, RecoveryPlan
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.ports import FileSystem, Runtime

TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "remote.storage.enable": "true",
    # It is unknown how long records were to be kept: the defaults would delete most of them at once.
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
_RECOVERED: Final = 0
_EVENTS_PER_BATCH: Final = 1_000
_PRODUCER_ID_BLOCK: Final = 1_000
_FIRST_EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class RecoveredDir:
    """What was written."""

    cluster_id: str
    log_dirs: tuple[str, ...]
    partition_count: int
    segment_count: int
    aborted_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalLog:
    """The files of one partition, and the offsets that checkpoints say of it."""

    topic_id: UUID
    place: TopicPartition
    base_offset: int
    end_offset: int
    log_start_offset: int
    batches: bytes = b""
    leader_epochs: tuple[tuple[int, int], ...] = ()
    producer_snapshot: bytes | None = None


def write_recovered_dir(
    runtime: Runtime, config: ServerConfig, plan: RecoveryPlan, *, cluster_id: str | None = None
) -> RecoveredDir:
    """Write the directories of a node that is broker and controller in one.

    Nothing is written unless they are empty. Raises ConfigError, and CorruptDataError for a producer snapshot.
    """
    if not (config.is_broker and config.is_controller):
        raise ConfigError("a recovered node is broker and controller in one: set process.roles=broker,controller")
    _require_empty(runtime.fs, [*config.log_dirs, config.metadata_log_dir])
    now_ms = runtime.clock.now_ms()
    format_plan = plan_format(runtime, config, cluster_id)
    events = RemoteTopicSettings.from_server(config)
    logs = [*_tiered_logs(plan, now_ms), *_metadata_logs(plan, runtime.new_uuid(), events, config.node_id, now_ms)]
    placed = {log.place: directory for log, directory in zip(logs, itertools.cycle(config.log_dirs), strict=False)}
    for directory in config.log_dirs:
        _write_logs(runtime.fs, directory, [log for log in logs if placed[log.place] == directory])
    records = _Metadata(format_plan, plan, events).records(logs, placed)
    write_format(runtime.fs, replace(format_plan, records=records), now_ms=now_ms)
    partitions = [partition for topic in plan.topics for partition in topic.partitions.values()]
    return RecoveredDir(
        cluster_id=format_plan.cluster_id,
        log_dirs=tuple(config.log_dirs),
        partition_count=sum(topic.partition_count for topic in plan.topics),
        segment_count=sum(len(partition.segments) for partition in partitions),
        aborted_transactions=sum(log.end_offset - log.base_offset for log in logs if log.place.topic != METADATA_TOPIC),
    )


def _require_empty(fs: FileSystem, directories: Iterable[str]) -> None:
    for directory in directories:
        if fs.exists(directory) and fs.listdir(directory):
            raise ConfigError(f"{directory} is not empty: a recovered node begins with new directories")


def _tiered_logs(plan: RecoveryPlan, now_ms: int) -> Iterator[_LocalLog]:
    for topic in plan.topics:
        for partition in topic.partitions.values():
            yield _tiered_log(topic, partition, now_ms)
        for index in topic.missing_partitions:
            place = TopicPartition(topic.name, index)
            yield _LocalLog(topic_id=topic.topic_id, place=place, base_offset=0, end_offset=0, log_start_offset=0)


def _tiered_log(topic: RecoverableTopic, partition: RecoverablePartition, now_ms: int) -> _LocalLog:
    place = partition.topic_id_partition.topic_partition
    end = partition.end_offset
    markers = b""
    for entry in decode_snapshot(partition.producer_snapshot, f"producer snapshot of {place}"):
        if entry.txn_first_offset >= 0:
            markers += build_end_transaction_batch(
                EndTransactionMarker(committed=False, coordinator_epoch=max(entry.coordinator_epoch, 0)),
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                timestamp=now_ms,
                base_offset=end,
                leader_epoch=partition.leader_epochs[-1][0],
            )
            end += 1
    return _LocalLog(
        topic_id=topic.topic_id,
        place=place,
        base_offset=partition.end_offset,
        end_offset=end,
        log_start_offset=partition.log_start_offset,
        batches=markers,
        leader_epochs=partition.leader_epochs,
        producer_snapshot=partition.producer_snapshot,
    )


def _metadata_logs(
    plan: RecoveryPlan, topic_id: UUID, settings: RemoteTopicSettings, broker_id: int, now_ms: int
) -> Iterator[_LocalLog]:
    """Yield the partitions of the metadata topic, with two events of each segment, as a broker would have sent them."""
    events: dict[int, list[bytes]] = {index: [] for index in range(settings.num_partitions)}
    for topic in plan.topics:
        for partition in topic.partitions.values():
            index = metadata_partition_for(partition.topic_id_partition, settings.num_partitions)
            for segment in partition.segments:
                events[index] += [encode_event(event) for event in _life_of(segment, broker_id, now_ms)]
    for index, values in events.items():
        yield _LocalLog(
            topic_id=topic_id,
            place=TopicPartition(METADATA_TOPIC, index),
            base_offset=0,
            end_offset=len(values),
            log_start_offset=0,
            batches=b"".join(_event_batches(values, now_ms)),
            leader_epochs=((_FIRST_EPOCH, 0),) if values else (),
        )


def _life_of(
    segment: RemoteLogSegmentMetadata, broker_id: int, now_ms: int
) -> tuple[RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate]:
    started = replace(
        segment,
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    )
    finished = RemoteLogSegmentMetadataUpdate(
        segment_id=segment.segment_id,
        event_timestamp_ms=now_ms,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=broker_id,
        custom_metadata=segment.custom_metadata,
    )
    return started, finished


def _event_batches(values: Sequence[bytes], now_ms: int) -> Iterator[bytes]:
    for start in range(0, len(values), _EVENTS_PER_BATCH):
        records = [
            Record(start + index, now_ms, None, value)
            for index, value in enumerate(values[start : start + _EVENTS_PER_BATCH])
        ]
        yield build_batch(records, base_offset=start, leader_epoch=_FIRST_EPOCH)


def _write_logs(fs: FileSystem, log_dir: str, logs: Sequence[_LocalLog]) -> None:
    for log in logs:
        directory = f"{log_dir}/{log.place.topic}-{log.place.partition}"
        fs.makedirs(directory)
        stem = f"{directory}/{naming.offset_name(log.base_offset)}"
        _write_new(fs, f"{stem}{naming.LOG_SUFFIX}", log.batches)
        _write_new(fs, f"{directory}/{naming.PARTITION_METADATA}", encode_partition_metadata(log.topic_id))
        _write_new(fs, f"{directory}/{naming.LEADER_EPOCH_CHECKPOINT}", encode_epochs(log.leader_epochs))
        if log.producer_snapshot is not None:
            _write_new(fs, f"{stem}{naming.SNAPSHOT_SUFFIX}", log.producer_snapshot)
        fs.fsync_dir(directory)
    fs.makedirs(log_dir)
    # No mark of a clean stop: a node that starts here checks the few batches and makes the indexes.
    LogDir(fs, log_dir).write_checkpoints(
        CheckpointOffsets(
            recovery_points={log.place: log.base_offset for log in logs},
            high_watermarks={log.place: log.end_offset for log in logs},
            log_starts={log.place: log.log_start_offset for log in logs},
        )
    )


def _write_new(fs: FileSystem, path: str, data: bytes) -> None:
    """Write a file that is not read before the directory is formatted; its name is durable with the directory."""
    file = fs.open(path, create=True)
    try:
        if data:
            file.pwritev([data], 0)
            file.fsync()
    finally:
        file.close()


class _Metadata:
    """The records of the new cluster."""

    def __init__(self, format_plan: FormatPlan, plan: RecoveryPlan, events: RemoteTopicSettings) -> None:
        self._format = format_plan
        self._plan = plan
        # There is one node, whatever the settings say of a cluster.
        self._event_configs = replace(events, min_isr=1).topic_configs()

    def records(self, logs: Sequence[_LocalLog], placed: Mapping[TopicPartition, str]) -> list[Any]:
        """Return topics with their partitions and configs, and which producer ids are taken."""
        by_topic: dict[str, list[_LocalLog]] = {}
        for log in logs:
            by_topic.setdefault(log.place.topic, []).append(log)
        records: list[Any] = []
        for name, topic_logs in by_topic.items():
            records.append(TopicRecord(name=name, topic_id=topic_logs[0].topic_id))
            topic_logs.sort(key=lambda log: log.place.partition)
            records += [self._partition(log, placed[log.place]) for log in topic_logs]
            configs = self._event_configs if name == METADATA_TOPIC else TOPIC_CONFIGS
            records += [
                ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=name, name=key, value=value)
                for key, value in configs.items()
            ]
        return [*records, *self._producer_ids()]

    def _partition(self, log: _LocalLog, log_dir: str) -> PartitionRecord:
        return PartitionRecord(
            partition_id=log.place.partition,
            topic_id=log.topic_id,
            replicas=(self._format.node_id,),
            isr=(self._format.node_id,),
            # As after a crash: once the node has registered, it is elected anew, in the next epoch (KIP-966).
            leader=self._format.node_id,
            leader_recovery_state=_RECOVERED,
            leader_epoch=log.leader_epochs[-1][0] if log.leader_epochs else _FIRST_EPOCH,
            partition_epoch=0,
            directories=(self._format.directory_ids[log_dir],),
        )

    def _producer_ids(self) -> list[ProducerIdsRecord]:
        """Return the record that keeps new producers from the ids of old ones, which the logs still know."""
        used = [
            entry.producer_id
            for topic in self._plan.topics
            for partition in topic.partitions.values()
            for entry in decode_snapshot(partition.producer_snapshot)
        ]
        if not used:
            return []
        following = (max(used) // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK
        return [ProducerIdsRecord(broker_id=self._format.node_id, next_producer_id=following)]
