"""What clients receive when a whole request fails: Kafka's form for each API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crabka.errors import OperationError, WireError
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import SPECS, ApiKey, encode_request, encode_response, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from crabka.serving.api_table import FORWARDABLE
from crabka.serving.refusals import refuse, refuse_frame
from crabka.serving.request import Request
from tests.support.nodes.sim_node import build, row

CONNECTION = ConnectionInfo(1, "CONTROLLER", "h", 1)
ERROR = OperationError(ErrorCode.not_controller, "elsewhere")
CONFIGS = [row("AlterConfigsResource", resource_type=2, resource_name="t", configs=[])]
BODIES: dict[ApiKey, dict[str, Any]] = {
    ApiKey.CREATE_TOPICS: {
        "topics": [row("CreatableTopic", name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])],
        "timeout": 1000,
        "validate_only": False,
    },
    ApiKey.CREATE_PARTITIONS: {
        "topics": [row("CreatePartitionsTopic", name="t", count=2, assignments=None)],
        "timeout": 1000,
        "validate_only": False,
    },
    ApiKey.ALTER_CONFIGS: {"resources": CONFIGS, "validate_only": False},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": CONFIGS, "validate_only": False},
    ApiKey.ELECT_LEADERS: {
        "election_type": 0,
        "topic_partitions": [row("TopicPartitions", topic="t", partitions=(0,))],
        "timeout": 1000,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "timeout": 1000,
        "topics": [
            row(
                "ReassignableTopic",
                name="t",
                partitions=[row("ReassignablePartition", partition_index=0, replicas=(1,))],
            )
        ],
    },
    ApiKey.ALTER_CLIENT_QUOTAS: {
        "entries": [row("EntryData", entity=[row("EntityData", entity_type="user", entity_name="u")], ops=[])],
        "validate_only": False,
    },
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
        "deletions": [row("ScramCredentialDeletion", name="u", mechanism=1)],
        "upsertions": [
            row("ScramCredentialUpsertion", name=name, mechanism=2, iterations=4096, salt=b"s", salted_password=b"p")
            for name in ("u", "v")
        ],
    },
    ApiKey.UPDATE_FEATURES: {"timeout": 1000, "feature_updates": [], "validate_only": False},
    ApiKey.CREATE_ACLS: {
        "creations": [
            row(
                "AclCreation",
                resource_type=2,
                resource_name="t",
                resource_pattern_type=3,
                principal="User:u",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    },
    ApiKey.DELETE_ACLS: {
        "filters": [
            row(
                "DeleteAclsFilter",
                resource_type_filter=2,
                resource_name_filter="t",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    },
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"timeout": 1000, "topics": None},
    ApiKey.DESCRIBE_QUORUM: {"topics": []},
    ApiKey.UNREGISTER_BROKER: {"broker_id": 1},
    ApiKey.ADD_RAFT_VOTER: {
        "cluster_id": None,
        "timeout": 1000,
        "voter_id": 2,
        "voter_directory_id": UUID(int=3),
        "listeners": [],
    },
    ApiKey.REMOVE_RAFT_VOTER: {"cluster_id": None, "voter_id": 2, "voter_directory_id": UUID(int=3)},
}


def refusal(api_key: ApiKey, version: int, **fields: Any) -> Any:
    response = refuse(Request(api_key, version, 1, None, build(api_key, version, **fields), CONNECTION), ERROR)
    assert encode_response(response)
    return response


def codes(value: Any) -> list[int]:
    """Return all error codes of a response, wherever they are."""
    found = []
    for name in getattr(value, "__dataclass_fields__", {}):
        part = getattr(value, name)
        if name == "error_code":
            found.append(int(part))
        for each in part if isinstance(part, tuple) else ():
            found += codes(each)
    return found


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key in BODIES for version in range(SPECS[key].min_version, SPECS[key].max_version + 1)],
    ids=lambda each: each.name if isinstance(each, ApiKey) else str(each),
)
def test_every_version_reports_the_code(key: ApiKey, version: int) -> None:
    found = codes(refusal(key, version, **BODIES[key]))
    assert found
    assert set(found) == {ErrorCode.not_controller}


def test_whatever_brokers_forward_can_be_refused() -> None:
    assert FORWARDABLE - {ApiKey.DELETE_TOPICS} <= set(BODIES)  # which have a test of their own


def test_a_frame_is_answered_in_the_form_of_its_request() -> None:
    body = encode_request(build(ApiKey.UNREGISTER_BROKER, 0, broker_id=1))
    frame = pack_request(RequestHeader(ApiKey.UNREGISTER_BROKER, 0, 77, "me", 0), body)
    answer = memoryview(refuse_frame(memoryview(frame)[4:], CONNECTION, ERROR))
    correlation_id, offset = parse_response_header(answer[4:], ApiKey.UNREGISTER_BROKER, 0)
    response = read_response(ApiKey.UNREGISTER_BROKER, 0, answer[4:], offset)
    assert (correlation_id, response.error_code, response.error_message) == (77, ErrorCode.not_controller, "elsewhere")
    with pytest.raises(WireError):
        refuse_frame(memoryview(frame)[4:-1], CONNECTION, ERROR)


def test_deletions_by_name_and_by_id() -> None:
    (by_name,) = refusal(ApiKey.DELETE_TOPICS, 5, topic_names=("t",), timeout=1000).responses
    assert (by_name.name, by_name.error_code, by_name.error_message) == ("t", ErrorCode.not_controller, "elsewhere")
    topic = row("DeleteTopicState", name=None, topic_id=UUID(int=7))
    (by_id,) = refusal(ApiKey.DELETE_TOPICS, 6, topics=[topic], timeout=1000).responses
    assert (by_id.name, by_id.topic_id, by_id.error_code) == (None, UUID(int=7), ErrorCode.not_controller)


def test_elections_of_all_partitions_have_the_code_of_the_whole_alone() -> None:
    response = refusal(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=1000)
    assert (response.error_code, response.replica_election_results) == (ErrorCode.not_controller, ())


def test_an_api_with_one_code_gets_it() -> None:
    response = refusal(ApiKey.UNREGISTER_BROKER, 0, broker_id=1)
    assert (response.error_code, response.error_message) == (ErrorCode.not_controller, "elsewhere")
