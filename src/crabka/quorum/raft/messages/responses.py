"""Responses of the quorum on the wire.

An inconsistent cluster id is an error of the whole response, every other error one of the partition, as in Kafka. The
records of a Fetch and the bytes of a snapshot must have been read before `encode_response`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    BeginQuorumEpochResponse,
    DescribeResponse,
    EndQuorumEpochResponse,
    FetchSnapshotResponse,
    LeaderHint,
    MetadataFetchResponse,
    ReplicaDescription,
    Response,
    VersionsResponse,
    VoterChangeResponse,
    VoteResponse,
)
from crabka.kraft.voters import VoterEndpoint
from crabka.metadata.features import KRAFT_VERSION
from crabka.protocol.apis import ApiKey, MessageTypes, response_types
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.quorum.log.side_files import METADATA_TOPIC_ID
from crabka.quorum.raft.messages.shared import (
    METADATA_TOPIC,
    NO_HINT,
    NO_NODE,
    UNKNOWN,
    endpoints_of,
    hint_of,
    key_of,
    only_partition,
    told_endpoint,
    wire_id,
)

Encoder = Callable[[MessageTypes, Any, list[Any]], Any]
_LISTS = {
    ApiKey.VOTE: "topics",
    ApiKey.BEGIN_QUORUM_EPOCH: "topics",
    ApiKey.END_QUORUM_EPOCH: "topics",
    ApiKey.FETCH: "responses",
    ApiKey.FETCH_SNAPSHOT: "topics",
    ApiKey.DESCRIBE_QUORUM: "topics",
}


def encode_response(api_key: ApiKey, version: int, response: Response, *, listener: str = "") -> Any:
    """Return the body of a response; `listener` is that of the request, for the endpoint of the leader."""
    types = response_types(api_key, version)
    if api_key in _LISTS and _concerns_all(response):
        return encode_refusal(api_key, version, response.error)
    nodes = _node_endpoints(types, response.leader, listener) if not isinstance(response, VersionsResponse) else []
    return _ENCODERS[api_key](types, response, nodes)


def encode_refusal(api_key: ApiKey, version: int, error: ErrorCode, message: str | None = None) -> Any:
    """Return the body of an error response."""
    types = response_types(api_key, version)
    fields: dict[str, Any] = {_LISTS[api_key]: ()} if api_key in _LISTS else {}
    if api_key is ApiKey.DESCRIBE_QUORUM:
        fields |= {"error_message": message or error_message(error), "nodes": ()}
    elif api_key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER):
        fields["error_message"] = message or error_message(error)
    elif api_key is ApiKey.UPDATE_RAFT_VOTER:
        fields["current_leader"] = types.new("CurrentLeader", host="", port=0)
    if api_key not in (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM):
        fields["throttle_time"] = 0
    return types.message(error_code=error, **fields)


def decode_response(api_key: ApiKey, body: Any) -> Response:
    """Return the response of a peer. Raises OperationError if it is about another topic."""
    return _DECODERS[api_key](body)


def _concerns_all(response: Response) -> bool:
    if isinstance(response, DescribeResponse):
        return response.error is not ErrorCode.none
    return response.error is ErrorCode.inconsistent_cluster_id


def _node_endpoints(types: MessageTypes, hint: LeaderHint, listener: str) -> list[Any]:
    endpoint = told_endpoint(hint, listener)
    if endpoint is None or types.api_key not in _WITH_ENDPOINTS:
        return []
    return [types.new("NodeEndpoint", node_id=hint.leader_id, host=endpoint.host, port=endpoint.port)]


def _encode_election(
    types: MessageTypes,
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse,
    nodes: list[Any],
) -> Any:
    granted = {"vote_granted": response.granted} if isinstance(response, VoteResponse) else {}
    partition = types.new(
        "PartitionData",
        partition_index=0,
        error_code=response.error,
        leader_id=wire_id(response.leader.leader_id),
        leader_epoch=response.leader.epoch,
        **granted,
    )
    topic = types.new("TopicData", topic_name=METADATA_TOPIC, partitions=[partition])
    return types.message(error_code=ErrorCode.none, topics=[topic], node_endpoints=nodes)


def _encode_fetch(types: MessageTypes, response: MetadataFetchResponse, nodes: list[Any]) -> Any:
    optional: dict[str, Any] = {}
    if response.diverging is not None:
        end = response.diverging
        optional["diverging_epoch"] = types.new("EpochEndOffset", epoch=end.epoch, end_offset=end.offset)
    if response.snapshot is not None:
        snapshot = response.snapshot
        optional["snapshot_id"] = types.new("SnapshotId", epoch=snapshot.epoch, end_offset=snapshot.offset)
    leader = types.new(
        "LeaderIdAndEpoch", leader_id=wire_id(response.leader.leader_id), leader_epoch=response.leader.epoch
    )
    partition = types.new(
        "PartitionData",
        partition_index=0,
        error_code=response.error,
        high_watermark=UNKNOWN if response.high_watermark is None else response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=leader,
        aborted_transactions=[],
        records=response.records or b"",
        **optional,
    )
    topic = types.new(
        "FetchableTopicResponse", topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return types.message(throttle_time=0, error_code=ErrorCode.none, responses=[topic], node_endpoints=nodes)


def _encode_fetch_snapshot(types: MessageTypes, response: FetchSnapshotResponse, nodes: list[Any]) -> Any:
    snapshot = response.snapshot or OffsetAndEpoch(0, 0)
    partition = types.new(
        "PartitionSnapshot",
        index=0,
        error_code=response.error,
        snapshot_id=types.new("SnapshotId", end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=types.new(
            "LeaderIdAndEpoch", leader_id=wire_id(response.leader.leader_id), leader_epoch=response.leader.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = types.new("TopicSnapshot", name=METADATA_TOPIC, partitions=[partition])
    return types.message(throttle_time=0, error_code=ErrorCode.none, topics=[topic], node_endpoints=nodes)


def _encode_voter_change(types: MessageTypes, response: VoterChangeResponse, _nodes: list[Any]) -> Any:
    message = response.message or (None if response.error is ErrorCode.none else error_message(response.error))
    return types.message(throttle_time=0, error_code=response.error, error_message=message)


def _encode_update(types: MessageTypes, response: VoterChangeResponse, _nodes: list[Any]) -> Any:
    endpoint = told_endpoint(response.leader, "") or VoterEndpoint("", "", 0)
    leader = types.new(
        "CurrentLeader",
        leader_id=wire_id(response.leader.leader_id),
        leader_epoch=response.leader.epoch,
        host=endpoint.host,
        port=endpoint.port,
    )
    return types.message(throttle_time=0, error_code=response.error, current_leader=leader)


def _encode_describe(types: MessageTypes, response: DescribeResponse, _nodes: list[Any]) -> Any:
    partition = types.new(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=wire_id(response.leader.leader_id),
        leader_epoch=response.leader.epoch,
        high_watermark=UNKNOWN if response.high_watermark is None else response.high_watermark,
        current_voters=[_replica_state(types, voter) for voter in response.voters],
        observers=[_replica_state(types, observer) for observer in response.observers],
    )
    nodes = [
        types.new(
            "Node",
            node_id=voter.key.node_id,
            listeners=[types.new("Listener", **item._asdict()) for item in voter.endpoints],
        )
        for voter in response.voters
    ]
    topic = types.new("TopicData", topic_name=METADATA_TOPIC, partitions=[partition])
    return types.message(error_code=ErrorCode.none, error_message="", topics=[topic], nodes=nodes)


def _replica_state(types: MessageTypes, replica: ReplicaDescription) -> Any:
    return types.new(
        "ReplicaState",
        replica_id=replica.key.node_id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _decode_vote(body: Any) -> VoteResponse:
    if body.error_code is not ErrorCode.none:
        return VoteResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.topics)
    return VoteResponse(error=partition.error_code, leader=_hint(body, partition), granted=partition.vote_granted)


def _decode_begin(body: Any) -> BeginQuorumEpochResponse:
    if body.error_code is not ErrorCode.none:
        return BeginQuorumEpochResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.topics)
    return BeginQuorumEpochResponse(error=partition.error_code, leader=_hint(body, partition))


def _decode_end(body: Any) -> EndQuorumEpochResponse:
    if body.error_code is not ErrorCode.none:
        return EndQuorumEpochResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.topics)
    return EndQuorumEpochResponse(error=partition.error_code, leader=_hint(body, partition))


def _decode_fetch(body: Any) -> MetadataFetchResponse:
    if body.error_code is not ErrorCode.none:
        return MetadataFetchResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return MetadataFetchResponse(
        error=partition.error_code,
        leader=_hint(body, partition.current_leader),
        high_watermark=None if partition.high_watermark < 0 else partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=None if diverging.epoch < 0 else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        snapshot=None if snapshot.epoch < 0 else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        records=bytes(partition.records) if partition.records else None,
    )


def _decode_fetch_snapshot(body: Any) -> FetchSnapshotResponse:
    if body.error_code is not ErrorCode.none:
        return FetchSnapshotResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.topics, "index")
    return FetchSnapshotResponse(
        error=partition.error_code,
        leader=_hint(body, partition.current_leader),
        snapshot=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=bytes(partition.unaligned_records or b""),
    )


def _decode_voter_change(body: Any) -> VoterChangeResponse:
    return VoterChangeResponse(error=body.error_code, leader=NO_HINT, message=body.error_message or "")


def _decode_update(body: Any) -> VoterChangeResponse:
    leader = body.current_leader
    if leader.leader_epoch < 0:
        return VoterChangeResponse(error=body.error_code, leader=NO_HINT)
    endpoints = (VoterEndpoint("", leader.host, leader.port),) if leader.host else ()
    hint = LeaderHint(leader.leader_epoch, None if leader.leader_id == NO_NODE else leader.leader_id, endpoints)
    return VoterChangeResponse(error=body.error_code, leader=hint)


def _decode_describe(body: Any) -> DescribeResponse:
    if body.error_code is not ErrorCode.none:
        return DescribeResponse(error=body.error_code, leader=NO_HINT)
    partition = only_partition(body.topics)
    endpoints = {node.node_id: endpoints_of(node.listeners) for node in getattr(body, "nodes", ())}
    return DescribeResponse(
        error=partition.error_code,
        leader=LeaderHint(
            partition.leader_epoch,
            partition.leader_id if partition.leader_id != NO_NODE else None,
            endpoints.get(partition.leader_id, ()),
        ),
        high_watermark=None if partition.high_watermark < 0 else partition.high_watermark,
        voters=tuple(_description(state, endpoints) for state in partition.current_voters),
        observers=tuple(_description(state, {}) for state in partition.observers),
    )


def _description(state: Any, endpoints: Mapping[int, tuple[VoterEndpoint, ...]]) -> ReplicaDescription:
    return ReplicaDescription(
        key=key_of(state.replica_id, getattr(state, "replica_directory_id", None)),
        end_offset=state.log_end_offset,
        last_fetch_ms=getattr(state, "last_fetch_timestamp", UNKNOWN),
        last_caught_up_ms=getattr(state, "last_caught_up_timestamp", UNKNOWN),
        endpoints=endpoints.get(state.replica_id, ()),
    )


def _decode_versions(body: Any) -> VersionsResponse:
    ranges = {item.name: (item.min_version, item.max_version) for item in getattr(body, "supported_features", ())}
    return VersionsResponse(error=body.error_code, kraft_versions=ranges.get(KRAFT_VERSION))


def _hint(body: Any, leader: Any) -> LeaderHint:
    if leader.leader_epoch < 0:
        return NO_HINT
    return hint_of(leader.leader_id, leader.leader_epoch, getattr(body, "node_endpoints", ()))


_EXPECTED: Mapping[ApiKey, type] = {
    ApiKey.VOTE: VoteResponse,
    ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochResponse,
    ApiKey.END_QUORUM_EPOCH: EndQuorumEpochResponse,
    ApiKey.FETCH: MetadataFetchResponse,
    ApiKey.FETCH_SNAPSHOT: FetchSnapshotResponse,
    ApiKey.DESCRIBE_QUORUM: DescribeResponse,
}
_WITH_ENDPOINTS = frozenset(_EXPECTED) - {ApiKey.DESCRIBE_QUORUM}
_ENCODERS: Mapping[ApiKey, Encoder] = {
    ApiKey.VOTE: _encode_election,
    ApiKey.BEGIN_QUORUM_EPOCH: _encode_election,
    ApiKey.END_QUORUM_EPOCH: _encode_election,
    ApiKey.FETCH: _encode_fetch,
    ApiKey.FETCH_SNAPSHOT: _encode_fetch_snapshot,
    ApiKey.ADD_RAFT_VOTER: _encode_voter_change,
    ApiKey.REMOVE_RAFT_VOTER: _encode_voter_change,
    ApiKey.UPDATE_RAFT_VOTER: _encode_update,
    ApiKey.DESCRIBE_QUORUM: _encode_describe,
}
_DECODERS: Mapping[ApiKey, Callable[[Any], Response]] = {
    ApiKey.VOTE: _decode_vote,
    ApiKey.BEGIN_QUORUM_EPOCH: _decode_begin,
    ApiKey.END_QUORUM_EPOCH: _decode_end,
    ApiKey.FETCH: _decode_fetch,
    ApiKey.FETCH_SNAPSHOT: _decode_fetch_snapshot,
    ApiKey.ADD_RAFT_VOTER: _decode_voter_change,
    ApiKey.REMOVE_RAFT_VOTER: _decode_voter_change,
    ApiKey.UPDATE_RAFT_VOTER: _decode_update,
    ApiKey.DESCRIBE_QUORUM: _decode_describe,
    ApiKey.API_VERSIONS: _decode_versions,
}
