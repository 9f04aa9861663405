"""What ApiVersions says at either listener."""

from __future__ import annotations

from crabka.metadata.image import MetadataImage
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.api_table import served_api
from crabka.serving.api_versions_answer import answer_api_versions
from crabka.serving.request import Request
from tests.support.nodes.sim_node import build

SERVED = {int(key): served_api(key) for key in (ApiKey.VOTE, ApiKey.FETCH)}


def asked(version: int, name: str = "crabka-test") -> Request:
    body = build(ApiKey.API_VERSIONS, version, client_software_name=name, client_software_version="1")
    return Request(ApiKey.API_VERSIONS, version, 1, None, body, ConnectionInfo(1, "CONTROLLER", "h", 1))


def test_apis_come_in_the_order_of_their_keys() -> None:
    answer = answer_api_versions(asked(4), SERVED, MetadataImage(), kraft_version=1)
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(1, 4, 18), (52, 0, 2)]
    assert [(each.name, each.max_version_level) for each in answer.finalized_features] == [("kraft.version", 1)]


def test_a_client_reports_its_name() -> None:
    request = asked(3)
    answer_api_versions(request, SERVED, MetadataImage(), kraft_version=0)
    assert request.connection.client_software_name == "crabka-test"
    refused = answer_api_versions(asked(3, "-"), SERVED, MetadataImage(), kraft_version=0)
    assert (refused.error_code, refused.api_keys) == (ErrorCode.invalid_request, ())
