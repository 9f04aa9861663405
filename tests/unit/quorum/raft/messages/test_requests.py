from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

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
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode
from crabka.protocol.apis import SPECS, ApiKey, encode_request, read_request, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import parse_request_header
from crabka.quorum.raft.messages import API_KEYS, decode_request, min_version
from crabka.quorum.raft.messages import encode_request as encode_raft_request
from tests.support.recorded.raft_frames import RAFT_KEYS, raft_frames

KEY = ReplicaKey(2, UUID(int=77))
VOTER = ReplicaKey(1, UUID(int=78))
ENDPOINTS = (VoterEndpoint("CONTROLLER", "host", 9093),)

REQUESTS: list[Request] = [
    VoteRequest(cluster_id="c", candidate=KEY, epoch=5, last=OffsetAndEpoch(9, 4), voter=VOTER, pre_vote=True),
    VoteRequest(cluster_id=None, candidate=KEY, epoch=5, last=OffsetAndEpoch(9, 4)),
    BeginQuorumEpochRequest(cluster_id="c", leader_id=2, epoch=5, voter=VOTER, endpoints=ENDPOINTS),
    EndQuorumEpochRequest(cluster_id="c", leader_id=2, epoch=5, preferred=(KEY, VOTER), endpoints=ENDPOINTS),
    MetadataFetchRequest(
        cluster_id="c", replica=KEY, epoch=5, fetch_offset=9, last_fetched_epoch=4, max_wait_ms=500, max_bytes=1000
    ),
    MetadataFetchRequest(cluster_id="c", replica=KEY, epoch=5, fetch_offset=9, last_fetched_epoch=4, high_watermark=-1),
    FetchSnapshotRequest(
        cluster_id="c", replica=KEY, epoch=5, snapshot=OffsetAndEpoch(7, 3), position=10, max_bytes=99
    ),
    AddVoterRequest(cluster_id="c", voter=KEY, endpoints=ENDPOINTS, timeout_ms=1000, ack_when_committed=False),
    RemoveVoterRequest(cluster_id="c", voter=KEY, timeout_ms=2000),
    UpdateVoterRequest(cluster_id="c", epoch=5, voter=VoterNode(2, UUID(int=77), ENDPOINTS, 0, 1)),
    DescribeRequest(),
]


def over_the_wire(request: Request, version: int) -> Request:
    key = API_KEYS[type(request)]
    body = encode_raft_request(request_types(key, version), request)
    return decode_request(key, read_request(key, version, encode_request(body)))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_requests_survive_the_wire_in_the_newest_version(request_: Request) -> None:
    assert over_the_wire(request_, SPECS[API_KEYS[type(request_)]].max_version) == request_


@pytest.mark.parametrize("version", range(12, 19))
def test_fetch_keeps_in_each_version_what_it_knows(version: int) -> None:
    found = over_the_wire(REQUESTS[5], version)
    assert isinstance(found, MetadataFetchRequest)
    assert (found.cluster_id, found.epoch, found.fetch_offset, found.last_fetched_epoch) == ("c", 5, 9, 4)
    assert found.replica == (KEY if version >= 17 else ReplicaKey(2))
    assert found.high_watermark == (-1 if version >= 18 else None)


def test_old_versions_drop_directory_ids_and_endpoints() -> None:
    vote = over_the_wire(REQUESTS[0], 0)
    assert vote == VoteRequest(cluster_id="c", candidate=ReplicaKey(2), epoch=5, last=OffsetAndEpoch(9, 4))
    begin = over_the_wire(REQUESTS[2], 0)
    assert begin == BeginQuorumEpochRequest(cluster_id="c", leader_id=2, epoch=5)
    end = over_the_wire(REQUESTS[3], 0)
    assert end == EndQuorumEpochRequest(cluster_id="c", leader_id=2, epoch=5, preferred=(ReplicaKey(2), ReplicaKey(1)))
    add = over_the_wire(REQUESTS[7], 0)
    assert isinstance(add, AddVoterRequest)
    assert add.ack_when_committed


def test_pre_votes_and_fetches_need_versions_that_know_them() -> None:
    assert [min_version(request) for request in REQUESTS[:6]] == [2, 0, 0, 0, 12, 12]


def test_the_check_of_a_new_voter_is_an_api_versions_request() -> None:
    body = encode_raft_request(request_types(ApiKey.API_VERSIONS, 4), VersionsRequest())
    assert body.client_software_name == "crabka"


@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.DESCRIBE_QUORUM])
def test_another_topic_is_an_invalid_request(key: ApiKey) -> None:
    types = request_types(key, 0)
    fields: dict[str, Any] = {"cluster_id": None} if key is ApiKey.VOTE else {}
    with pytest.raises(OperationError) as caught:
        decode_request(key, types.message(topics=[types.new("TopicData", topic_name="t", partitions=[])], **fields))
    assert caught.value.error_code is ErrorCode.invalid_request


def test_an_api_of_the_broker_is_not_served() -> None:
    with pytest.raises(OperationError) as caught:
        decode_request(ApiKey.PRODUCE, None)
    assert caught.value.error_code is ErrorCode.unsupported_version


def test_recorded_requests_are_written_again_byte_for_byte() -> None:
    seen = set()
    for frame in raft_frames(requests=True):
        header = parse_request_header(memoryview(frame.payload))
        body = read_request(frame.api_key, frame.api_version, frame.payload, header.body_offset)
        request = decode_request(frame.api_key, body)
        types = request_types(ApiKey(frame.api_key), frame.api_version)
        assert encode_request(encode_raft_request(types, request)) == frame.payload[header.body_offset :], frame.source
        seen.add(frame.api_key)
    assert seen == set(RAFT_KEYS)
