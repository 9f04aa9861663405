"""AssignReplicasToDirs: a broker reports the log dir of each of its replicas (KIP-858)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import PartitionEdits, configured_election, without_broker
from crabka.controller.decisions.partition_change import PartitionTarget
from crabka.errors import OperationError
from crabka.metadata.requests import Outcome
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.ids import DirectoryId, TopicId
    from crabka.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    """The log dir of a replica of the requesting broker."""

    directory: DirectoryId
    topic_id: TopicId
    partition_id: int


def assign_replicas(
    image: MetadataImage,
    rules: ControllerRules,
    placements: Sequence[ReplicaPlacement],
    *,
    broker_id: int,
    broker_epoch: int,
) -> Outcome[list[ErrorCode]]:
    """Record placements; return one code for each, in their order. A replica in a dir that failed stops leading.

    A replica in a working dir may lead again if the metadata had placed it in a failed one, as when the target of a
    move fails before the replica is moved.

    Raises OperationError: STALE_BROKER_EPOCH, or UNSUPPORTED_VERSION where the metadata version has no such record.
    """
    view = ControlView(image, rules)
    if not view.directories_supported:
        raise OperationError(ErrorCode.unsupported_version, "Directory assignment is not supported yet.")
    broker = view.require_broker_epoch(broker_id, broker_epoch)
    edits = PartitionEdits(view)
    # If a replica is named twice, the last placement counts.
    latest = {(each.topic_id, each.partition_id): each for each in placements}
    codes = {key: _assign(edits, each, broker_id) for key, each in latest.items()}
    rows = []
    for (topic_id, index), each in latest.items():
        if codes[topic_id, index] is ErrorCode.none and not broker.has_online_directory(each.directory):
            topic = image.topics.by_id[topic_id]
            rows.append((topic, index, edits.partition(topic, index) or topic.partitions[index]))
    results = [codes[each.topic_id, each.partition_id] for each in placements]
    return Outcome(results, [*edits.records, *without_broker(view, broker_id, rows)])


def _assign(edits: PartitionEdits, placement: ReplicaPlacement, broker_id: int) -> ErrorCode:
    topic = edits.view.image.topics.by_id.get(placement.topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_id
    partition = edits.partition(topic, placement.partition_id)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if broker_id not in partition.replicas:
        return ErrorCode.not_leader_or_follower
    index = placement.partition_id
    edits.change(topic, index, PartitionTarget(directories={broker_id: placement.directory}))
    if partition.leader == NO_LEADER:
        edits.change(topic, index, PartitionTarget(election=configured_election(edits.view, topic)))
    return ErrorCode.none
