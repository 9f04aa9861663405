from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

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
from crabka.kraft.voters import ReplicaKey, VoterEndpoint
from crabka.protocol.apis import SPECS, ApiKey, encode_response, read_response, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import parse_response_header
from crabka.quorum.raft.messages import decode_response, encode_refusal
from crabka.quorum.raft.messages import encode_response as encode_raft_response
from tests.support.recorded.raft_frames import RAFT_KEYS, raft_frames

ENDPOINTS = (VoterEndpoint("", "host", 9093),)
HINT = LeaderHint(5, 2, ENDPOINTS)
LISTENERS = (VoterEndpoint("CONTROLLER", "host", 9093),)
NONE = ErrorCode.none

RESPONSES: list[tuple[ApiKey, Response]] = [
    (ApiKey.VOTE, VoteResponse(error=NONE, leader=HINT, granted=True)),
    (ApiKey.VOTE, VoteResponse(error=ErrorCode.fenced_leader_epoch, leader=LeaderHint(5))),
    (ApiKey.BEGIN_QUORUM_EPOCH, BeginQuorumEpochResponse(error=NONE, leader=HINT)),
    (ApiKey.END_QUORUM_EPOCH, EndQuorumEpochResponse(error=ErrorCode.invalid_request, leader=HINT)),
    (ApiKey.FETCH, MetadataFetchResponse(error=NONE, leader=HINT, high_watermark=7, records=b"abc")),
    (ApiKey.FETCH, MetadataFetchResponse(error=NONE, leader=HINT, diverging=OffsetAndEpoch(4, 2), log_start_offset=3)),
    (ApiKey.FETCH, MetadataFetchResponse(error=NONE, leader=HINT, snapshot=OffsetAndEpoch(4, 2))),
    (ApiKey.FETCH, MetadataFetchResponse(error=ErrorCode.not_leader_or_follower, leader=LeaderHint(5))),
    (
        ApiKey.FETCH_SNAPSHOT,
        FetchSnapshotResponse(
            error=NONE, leader=HINT, snapshot=OffsetAndEpoch(4, 2), size=9, position=3, data=b"123456"
        ),
    ),
    (ApiKey.ADD_RAFT_VOTER, VoterChangeResponse(error=ErrorCode.duplicate_voter, leader=LeaderHint(0), message="no")),
    (ApiKey.REMOVE_RAFT_VOTER, VoterChangeResponse(error=NONE, leader=LeaderHint(0))),
    (ApiKey.UPDATE_RAFT_VOTER, VoterChangeResponse(error=ErrorCode.not_leader_or_follower, leader=HINT)),
    (ApiKey.UPDATE_RAFT_VOTER, VoterChangeResponse(error=NONE, leader=LeaderHint(5))),
    (
        ApiKey.DESCRIBE_QUORUM,
        DescribeResponse(
            error=NONE,
            leader=LeaderHint(5, 2, LISTENERS),
            high_watermark=8,
            voters=(ReplicaDescription(ReplicaKey(2, UUID(int=7)), 9, 100, 101, LISTENERS),),
            observers=(ReplicaDescription(ReplicaKey(3, UUID(int=8)), 4, -1, -1),),
        ),
    ),
]


def over_the_wire(key: ApiKey, version: int, response: Response) -> Response:
    body = encode_raft_response(key, version, response)
    return decode_response(key, read_response(key, version, encode_response(body)))


@pytest.mark.parametrize(("key", "response"), RESPONSES)
def test_responses_survive_the_wire_in_the_newest_version(key: ApiKey, response: Response) -> None:
    assert over_the_wire(key, SPECS[key].max_version, response) == response


@pytest.mark.parametrize("version", range(12, 19))
def test_every_version_of_fetch_names_leader_and_records(version: int) -> None:
    response = MetadataFetchResponse(error=NONE, leader=HINT, high_watermark=7, records=b"abc")
    endpoints = ENDPOINTS if version >= 16 else ()
    expected = MetadataFetchResponse(error=NONE, leader=LeaderHint(5, 2, endpoints), high_watermark=7, records=b"abc")
    assert over_the_wire(ApiKey.FETCH, version, response) == expected


@pytest.mark.parametrize(
    ("key", "response"), [pair for pair in RESPONSES if SPECS[pair[0]].min_version == 0 and pair[0] != ApiKey.FETCH]
)
def test_the_oldest_version_keeps_the_error(key: ApiKey, response: Response) -> None:
    assert over_the_wire(key, 0, response).error is response.error


def test_a_wrong_cluster_is_reported_for_the_whole_response() -> None:
    response = VoteResponse(error=ErrorCode.inconsistent_cluster_id, leader=HINT)
    body = encode_raft_response(ApiKey.VOTE, 2, response)
    assert (body.error_code, body.topics) == (ErrorCode.inconsistent_cluster_id, ())
    assert decode_response(ApiKey.VOTE, body) == VoteResponse(error=response.error, leader=LeaderHint(0))


@pytest.mark.parametrize("key", [*RAFT_KEYS, ApiKey.UPDATE_RAFT_VOTER])
def test_a_refusal_is_reported_in_every_version(key: ApiKey) -> None:
    for version in range(SPECS[key].min_version, SPECS[key].max_version + 1):
        encode_response(encode_refusal(key, version, ErrorCode.invalid_request))
    newest = encode_refusal(key, SPECS[key].max_version, ErrorCode.invalid_request)
    assert decode_response(key, newest).error is ErrorCode.invalid_request


def test_a_follower_does_not_describe_the_quorum() -> None:
    response = DescribeResponse(error=ErrorCode.not_leader_or_follower, leader=HINT)
    body = encode_raft_response(ApiKey.DESCRIBE_QUORUM, 2, response)
    assert (body.error_code, body.topics) == (ErrorCode.not_leader_or_follower, ())


def test_the_endpoint_of_the_same_listener_is_reported() -> None:
    hint = LeaderHint(5, 2, (VoterEndpoint("A", "a", 1), VoterEndpoint("B", "b", 2)))
    response = BeginQuorumEpochResponse(error=NONE, leader=hint)
    reported = {
        listener: encode_raft_response(ApiKey.BEGIN_QUORUM_EPOCH, 1, response, listener=listener).node_endpoints[0].host
        for listener in ("A", "B", "C")
    }
    assert reported == {"A": "a", "B": "b", "C": "a"}


def test_api_versions_report_the_range_of_kraft_version() -> None:
    types = response_types(ApiKey.API_VERSIONS, 4)

    def body(*features: Any) -> Any:
        return types.message(error_code=NONE, api_keys=[], throttle_time=0, supported_features=features)

    kraft = types.new("SupportedFeatureKey", name="kraft.version", min_version=0, max_version=1)
    assert decode_response(ApiKey.API_VERSIONS, body(kraft)) == VersionsResponse(error=NONE, kraft_versions=(0, 1))
    assert decode_response(ApiKey.API_VERSIONS, body()) == VersionsResponse(error=NONE)


def test_recorded_responses_are_written_again_byte_for_byte() -> None:
    seen = set()
    for frame in raft_frames(requests=False):
        key = ApiKey(frame.api_key)
        _, offset = parse_response_header(memoryview(frame.payload), key, frame.api_version)
        response = decode_response(key, read_response(key, frame.api_version, frame.payload, offset))
        body = encode_raft_response(key, frame.api_version, response)
        assert encode_response(body) == frame.payload[offset:], frame.source
        seen.add(key)
    assert seen == set(RAFT_KEYS)
