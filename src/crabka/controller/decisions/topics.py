"""Creating and deleting topics (Kafka's ReplicationControlManager: codes, order of checks and messages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.config.alter import check_topic
from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.placement import initial_directories, place_partitions
from crabka.errors import ConfigError, OperationError, require
from crabka.ids import ZERO_UUID
from crabka.metadata.records import ClearElrRecord, ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from crabka.metadata.requests import USE_DEFAULT, ItemVerdict, Outcome, WantedTopic
from crabka.metadata.topic_names import find_collision, require_legal_topic_name
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from crabka.config.server import ServerConfig
    from crabka.ids import TopicId
    from crabka.metadata.image import MetadataImage

    # Counts partitions that a client creates or deletes (KIP-599); raises OperationError where its quota is used up.
    Charge = Callable[[int], None]

TOPIC_RESOURCE = 2
MAX_PARTITIONS_PER_REQUEST = 10_000


def free(_partition_count: int) -> None:
    """Charge nothing."""


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets where its request leaves it open."""

    partition_count: int
    replication_factor: int
    rng: random.Random
    new_topic_id: Callable[[], TopicId]
    # The settings that topics inherit, and whether there is a remote tier; without them Kafka's defaults hold.
    server: ServerConfig | None = None


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The answer for one topic; id and counts are meaningful only on success."""

    verdict: ItemVerdict
    topic_id: TopicId = ZERO_UUID
    partition_count: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """The answer for one topic to delete."""

    name: str | None
    topic_id: TopicId
    verdict: ItemVerdict


def create_topics(
    image: MetadataImage,
    wanted: Sequence[WantedTopic],
    defaults: TopicDefaults,
    *,
    validate_only: bool = False,
    charge: Charge = free,
) -> Outcome[dict[str, TopicCreation]]:
    """Decide on new topics one by one; an invalid one, or one above the quota, does not stop the others."""
    records: list[Any] = []
    results: dict[str, TopicCreation] = {}
    names = [topic.name for topic in wanted]
    for topic in wanted:
        if topic.name in results:
            continue
        try:
            if names.count(topic.name) > 1:
                raise OperationError(ErrorCode.invalid_request, "Duplicate topic name.")
            others = [*image.topics.by_name, *(name for name, made in results.items() if made.partition_count > 0)]
            topic_records, created = _create(image, topic, defaults, others=others)
            partitions_so_far = sum(isinstance(record, PartitionRecord) for record in records)
            if partitions_so_far + created.partition_count > MAX_PARTITIONS_PER_REQUEST:
                raise OperationError(
                    ErrorCode.policy_violation,
                    f"Excessively large number of partitions per request; the limit is {MAX_PARTITIONS_PER_REQUEST}.",
                )
            charge(created.partition_count)
            records += topic_records
            results[topic.name] = created
        except OperationError as error:
            results[topic.name] = TopicCreation(ItemVerdict.of(error))
    return Outcome(results, [] if validate_only else records)


def delete_topics(
    image: MetadataImage, wanted: Sequence[tuple[str | None, TopicId]], *, enabled: bool, charge: Charge = free
) -> Outcome[list[TopicDeletion]]:
    """Decide on topics to delete, each named by name or by id."""
    records: list[Any] = []
    results: list[TopicDeletion] = []
    seen: set[TopicId] = set()
    for name, topic_id in wanted:
        try:
            if not enabled:
                raise OperationError(ErrorCode.topic_deletion_disabled)
            topic = _find(image, name, topic_id)
            if topic.topic_id in seen:
                raise OperationError(ErrorCode.invalid_request, "Duplicate topic name or id.")
            seen.add(topic.topic_id)
            charge(len(topic.partitions))
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(TopicDeletion(topic.name, topic.topic_id, ItemVerdict()))
        except OperationError as error:
            results.append(TopicDeletion(name, topic_id, ItemVerdict.of(error)))
    return Outcome(results, records)


def _find(image: MetadataImage, name: str | None, topic_id: TopicId) -> Any:
    if name is not None and topic_id != ZERO_UUID:
        raise OperationError(ErrorCode.invalid_request, "You may not specify both topic name and topic id.")
    if name is None:
        if topic_id == ZERO_UUID:
            raise OperationError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            raise OperationError(ErrorCode.unknown_topic_id)
        return topic
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise OperationError(ErrorCode.unknown_topic_or_partition)
    return topic


def _create(
    image: MetadataImage, topic: WantedTopic, defaults: TopicDefaults, *, others: list[str]
) -> tuple[list[Any], TopicCreation]:
    require_legal_topic_name(topic.name)
    if topic.name in image.topics.by_name:
        raise OperationError(ErrorCode.topic_already_exists, f"Topic '{topic.name}' already exists.")
    collision = find_collision(topic.name, others)
    if collision is not None:
        raise OperationError(
            ErrorCode.invalid_topic_exception, f"Topic '{topic.name}' collides with existing topic: {collision}"
        )
    configs = {name: value for name, value in topic.configs.items() if value is not None}
    _check_configs(topic.name, configs, defaults.server)
    replicas = _manual_replicas(image, topic) if topic.assignments else _placed_replicas(image, topic, defaults)
    topic_id = _printable_topic_id(defaults.new_topic_id)
    records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    if "min.insync.replicas" in configs:
        records.append(ClearElrRecord(topic_name=topic.name))
    records += [new_partition_record(image, topic_id, index, replicas[index]) for index in range(len(replicas))]
    return records, TopicCreation(ItemVerdict(), topic_id, len(replicas), len(replicas[0]))


def new_partition_record(image: MetadataImage, topic_id: TopicId, index: int, replicas: list[int]) -> PartitionRecord:
    """Return the record of a partition that starts with its unfenced replicas in sync; there must be one."""
    view = ControlView(image)
    isr = [node_id for node_id in replicas if view.is_active(node_id)]
    require(bool(isr), "a new partition has an unfenced replica")
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=tuple(replicas),
        isr=tuple(isr),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=initial_directories(image, replicas),
    )


def _check_configs(name: str, configs: dict[str, str], server: ServerConfig | None) -> None:
    try:
        check_topic(configs, server, topic=name)
    except ConfigError as error:
        raise OperationError(ErrorCode.invalid_config, str(error)) from error


def _placed_replicas(image: MetadataImage, topic: WantedTopic, defaults: TopicDefaults) -> list[list[int]]:
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        raise OperationError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count < USE_DEFAULT or topic.partition_count == 0:
        raise OperationError(
            ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
        )
    count = defaults.partition_count if topic.partition_count == USE_DEFAULT else topic.partition_count
    if count > MAX_PARTITIONS_PER_REQUEST:
        # Checked before placement: the count comes from the wire.
        raise OperationError(
            ErrorCode.policy_violation,
            f"Excessively large number of partitions per request; the limit is {MAX_PARTITIONS_PER_REQUEST}.",
        )
    factor = defaults.replication_factor if topic.replication_factor == USE_DEFAULT else topic.replication_factor
    return place_partitions(image, partition_count=count, replication_factor=factor, rng=defaults.rng)


def _manual_replicas(image: MetadataImage, topic: WantedTopic) -> list[list[int]]:
    if topic.replication_factor != USE_DEFAULT:
        raise OperationError(
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partition_count != USE_DEFAULT:
        raise OperationError(
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    by_index: dict[int, list[int]] = {}
    for index, chosen in topic.assignments:
        if index in by_index:
            raise OperationError(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {index}",
            )
        by_index[index] = list(chosen)
    if sorted(by_index) != list(range(len(by_index))):
        raise OperationError(
            ErrorCode.invalid_replica_assignment, "partitions should be a consecutive 0-based integer sequence"
        )
    replication_factor = len(by_index[0])
    for index, replicas in by_index.items():
        check_manual_assignment(image, replicas, replication_factor=replication_factor)
        check_living_replica(image, index, replicas)
    return [by_index[index] for index in range(len(by_index))]


def check_manual_assignment(image: MetadataImage, replicas: list[int], *, replication_factor: int | None) -> None:
    """Raise OperationError (INVALID_REPLICA_ASSIGNMENT) if the replicas of a client's assignment are invalid.

    Without a replication factor any number of replicas is valid.
    """
    fault = None
    unknown = [node_id for node_id in replicas if node_id not in image.cluster.brokers]
    if not replicas:
        fault = "The manual partition assignment includes an empty replica list."
    elif len(set(replicas)) != len(replicas):
        fault = f"The manual partition assignment includes the broker {_first_duplicate(replicas)} more than once."
    elif unknown:
        fault = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
    elif replication_factor is not None and len(replicas) != replication_factor:
        fault = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    if fault is not None:
        raise OperationError(ErrorCode.invalid_replica_assignment, fault)


def check_living_replica(image: MetadataImage, index: int, replicas: list[int]) -> None:
    """Raise OperationError (INVALID_REPLICA_ASSIGNMENT) if no replica of an assigned partition could lead."""
    view = ControlView(image)
    if not any(view.is_active(node_id) for node_id in replicas):
        raise OperationError(
            ErrorCode.invalid_replica_assignment,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )


def _first_duplicate(replicas: list[int]) -> int:
    return next(node_id for node_id in replicas if replicas.count(node_id) > 1)


def _printable_topic_id(new_topic_id: Callable[[], TopicId]) -> TopicId:
    # The text form must not look like a command line option, so the first 6 bits must not encode '-'.
    topic_id = new_topic_id()
    while topic_id.bytes[0] >> 2 == 62:
        topic_id = new_topic_id()
    return topic_id
