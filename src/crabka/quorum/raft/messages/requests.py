"""Requests of the quorum on the wire.

Server side: `decode_request` takes a body that the listener decoded. Client side: `encode_request` builds the body in
the version that was agreed with the peer. Fields that a version lacks get their neutral value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import crabka
from crabka.errors import OperationError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    MetadataFetchRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VersionsRequest,
    VoteRequest,
)
from crabka.kraft.voters import ReplicaKey, VoterNode
from crabka.protocol.apis import ApiKey, MessageTypes, ms
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.log.side_files import METADATA_TOPIC_ID
from crabka.quorum.raft.messages.shared import (
    METADATA_TOPIC,
    NO_NODE,
    endpoints_of,
    key_of,
    maybe_key_of,
    only_partition,
)

API_KEYS: Mapping[type, ApiKey] = {
    VoteRequest: ApiKey.VOTE,
    BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
    MetadataFetchRequest: ApiKey.FETCH,
    FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
    AddVoterRequest: ApiKey.ADD_RAFT_VOTER,
    RemoveVoterRequest: ApiKey.REMOVE_RAFT_VOTER,
    UpdateVoterRequest: ApiKey.UPDATE_RAFT_VOTER,
    DescribeRequest: ApiKey.DESCRIBE_QUORUM,
    VersionsRequest: ApiKey.API_VERSIONS,
}
# A fetch with this high watermark does not return early for a new one (KIP-1166).
_NO_HIGH_WATERMARK = (1 << 63) - 1
# Kafka's controller.quorum.request.timeout.ms: RemoveRaftVoter has no time-out field.
DEFAULT_TIMEOUT_MS = 2000
# The first version of Vote with pre-votes, and of Fetch with the metadata log.
_PRE_VOTE_VERSION = 2
_METADATA_FETCH_VERSION = 12


def min_version(request: Request) -> int:
    """Return the lowest version that can express a request."""
    if isinstance(request, VoteRequest) and request.pre_vote:
        return _PRE_VOTE_VERSION
    return _METADATA_FETCH_VERSION if isinstance(request, MetadataFetchRequest) else 0


def decode_request(api_key: int, body: Any, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Request:
    """Return the request of a peer; `timeout_ms` is for requests without such a field.

    Raises OperationError INVALID_REQUEST for another topic than the metadata, UNSUPPORTED_VERSION for another API.
    """
    if api_key == ApiKey.REMOVE_RAFT_VOTER:
        voter = key_of(body.voter_id, body.voter_directory_id)
        return RemoveVoterRequest(cluster_id=body.cluster_id, voter=voter, timeout_ms=timeout_ms)
    decode = _DECODERS.get(api_key)
    if decode is None:
        raise OperationError(ErrorCode.unsupported_version, f"the quorum does not serve API {api_key}")
    return decode(body)


def encode_request(types: MessageTypes, request: Request) -> Any:
    """Return the body of a request in the version of `types`."""
    return _ENCODERS[type(request)](types, request)


def _decode_vote(body: Any) -> VoteRequest:
    partition = only_partition(body.topics)
    return VoteRequest(
        cluster_id=body.cluster_id,
        candidate=key_of(partition.replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.replica_epoch,
        last=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        voter=maybe_key_of(getattr(body, "voter_id", NO_NODE), getattr(partition, "voter_directory_id", None)),
        pre_vote=getattr(partition, "pre_vote", False),
    )


def _encode_vote(types: MessageTypes, request: VoteRequest) -> Any:
    voter = request.voter or ReplicaKey(NO_NODE)
    partition = types.new(
        "PartitionData",
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    return types.message(cluster_id=request.cluster_id, voter_id=voter.node_id, topics=_topics(types, partition))


def _decode_begin(body: Any) -> BeginQuorumEpochRequest:
    partition = only_partition(body.topics)
    return BeginQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        voter=maybe_key_of(getattr(body, "voter_id", NO_NODE), getattr(partition, "voter_directory_id", None)),
        endpoints=endpoints_of(getattr(body, "leader_endpoints", ())),
    )


def _encode_begin(types: MessageTypes, request: BeginQuorumEpochRequest) -> Any:
    voter = request.voter or ReplicaKey(NO_NODE)
    partition = types.new(
        "PartitionData",
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return types.message(
        cluster_id=request.cluster_id,
        voter_id=voter.node_id,
        topics=_topics(types, partition),
        leader_endpoints=[types.new("LeaderEndpoint", **item._asdict()) for item in request.endpoints],
    )


def _decode_end(body: Any) -> EndQuorumEpochRequest:
    partition = only_partition(body.topics)
    if hasattr(partition, "preferred_candidates"):
        preferred = [key_of(item.candidate_id, item.candidate_directory_id) for item in partition.preferred_candidates]
    else:
        preferred = [ReplicaKey(node_id) for node_id in partition.preferred_successors]
    return EndQuorumEpochRequest(
        cluster_id=body.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        preferred=tuple(preferred),
        endpoints=endpoints_of(getattr(body, "leader_endpoints", ())),
    )


def _encode_end(types: MessageTypes, request: EndQuorumEpochRequest) -> Any:
    partition = types.new(
        "PartitionData",
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.node_id for key in request.preferred],
        preferred_candidates=[
            types.new("ReplicaInfo", candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.preferred
        ],
    )
    return types.message(
        cluster_id=request.cluster_id,
        topics=_topics(types, partition),
        leader_endpoints=[types.new("LeaderEndpoint", **item._asdict()) for item in request.endpoints],
    )


def _decode_fetch(body: Any) -> MetadataFetchRequest:
    partition = only_partition(body.topics, "partition")
    replica_id = body.replica_state.replica_id if hasattr(body, "replica_state") else body.replica_id
    known = getattr(partition, "high_watermark", _NO_HIGH_WATERMARK)
    return MetadataFetchRequest(
        cluster_id=getattr(body, "cluster_id", None),
        replica=key_of(replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=getattr(partition, "current_leader_epoch", NO_NODE),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=getattr(partition, "last_fetched_epoch", NO_NODE),
        max_wait_ms=ms(body.max_wait),
        max_bytes=body.max_bytes,
        high_watermark=None if known == _NO_HIGH_WATERMARK else known,
    )


def _encode_fetch(types: MessageTypes, request: MetadataFetchRequest) -> Any:
    partition = types.new(
        "FetchPartition",
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=_NO_HIGH_WATERMARK if request.high_watermark is None else request.high_watermark,
    )
    topic = types.new("FetchTopic", topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    node_id = request.replica.node_id
    return types.message(
        cluster_id=request.cluster_id,
        replica_id=node_id,
        replica_state=types.new("ReplicaState", replica_id=node_id),
        max_wait=request.max_wait_ms,
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=[topic],
        forgotten_topics_data=[],
        rack_id="",
    )


def _decode_fetch_snapshot(body: Any) -> FetchSnapshotRequest:
    partition = only_partition(body.topics, "partition")
    return FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica=key_of(body.replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.current_leader_epoch,
        snapshot=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=body.max_bytes,
    )


def _encode_fetch_snapshot(types: MessageTypes, request: FetchSnapshotRequest) -> Any:
    partition = types.new(
        "PartitionSnapshot",
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=types.new("SnapshotId", end_offset=request.snapshot.offset, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return types.message(
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[types.new("TopicSnapshot", name=METADATA_TOPIC, partitions=[partition])],
    )


def _decode_add(body: Any) -> AddVoterRequest:
    return AddVoterRequest(
        cluster_id=body.cluster_id,
        voter=key_of(body.voter_id, body.voter_directory_id),
        endpoints=endpoints_of(body.listeners),
        timeout_ms=ms(body.timeout),
        ack_when_committed=getattr(body, "ack_when_committed", True),
    )


def _encode_add(types: MessageTypes, request: AddVoterRequest) -> Any:
    return types.message(
        cluster_id=request.cluster_id,
        timeout=request.timeout_ms,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
        listeners=[types.new("Listener", **item._asdict()) for item in request.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def _encode_remove(types: MessageTypes, request: RemoveVoterRequest) -> Any:
    voter = request.voter
    return types.message(cluster_id=request.cluster_id, voter_id=voter.node_id, voter_directory_id=voter.directory_id)


def _decode_update(body: Any) -> UpdateVoterRequest:
    key = key_of(body.voter_id, body.voter_directory_id)
    versions = body.k_raft_version_feature
    voter = VoterNode(
        voter_id=key.node_id,
        directory_id=key.directory_id,
        endpoints=endpoints_of(body.listeners),
        min_kraft_version=versions.min_supported_version,
        max_kraft_version=versions.max_supported_version,
    )
    return UpdateVoterRequest(cluster_id=body.cluster_id, epoch=body.current_leader_epoch, voter=voter)


def _encode_update(types: MessageTypes, request: UpdateVoterRequest) -> Any:
    voter = request.voter
    return types.message(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.voter_id,
        voter_directory_id=voter.directory_id,
        listeners=[types.new("Listener", **item._asdict()) for item in voter.endpoints],
        k_raft_version_feature=types.new(
            "KRaftVersionFeature",
            min_supported_version=voter.min_kraft_version,
            max_supported_version=voter.max_kraft_version,
        ),
    )


def _decode_describe(body: Any) -> DescribeRequest:
    only_partition(body.topics)
    return DescribeRequest()


def _encode_describe(types: MessageTypes, _: DescribeRequest) -> Any:
    return types.message(topics=_topics(types, types.new("PartitionData", partition_index=0)))


def _encode_versions(types: MessageTypes, _: VersionsRequest) -> Any:
    return types.message(client_software_name="crabka", client_software_version=crabka.__version__)


def _topics(types: MessageTypes, partition: Any) -> list[Any]:
    return [types.new("TopicData", topic_name=METADATA_TOPIC, partitions=[partition])]


_DECODERS: Mapping[int, Callable[[Any], Request]] = {
    ApiKey.VOTE: _decode_vote,
    ApiKey.BEGIN_QUORUM_EPOCH: _decode_begin,
    ApiKey.END_QUORUM_EPOCH: _decode_end,
    ApiKey.FETCH: _decode_fetch,
    ApiKey.FETCH_SNAPSHOT: _decode_fetch_snapshot,
    ApiKey.ADD_RAFT_VOTER: _decode_add,
    ApiKey.UPDATE_RAFT_VOTER: _decode_update,
    ApiKey.DESCRIBE_QUORUM: _decode_describe,
}
_ENCODERS: Mapping[type, Callable[[MessageTypes, Any], Any]] = {
    VoteRequest: _encode_vote,
    BeginQuorumEpochRequest: _encode_begin,
    EndQuorumEpochRequest: _encode_end,
    MetadataFetchRequest: _encode_fetch,
    FetchSnapshotRequest: _encode_fetch_snapshot,
    AddVoterRequest: _encode_add,
    RemoveVoterRequest: _encode_remove,
    UpdateVoterRequest: _encode_update,
    DescribeRequest: _encode_describe,
    VersionsRequest: _encode_versions,
}
