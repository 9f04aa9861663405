"""The rows of requests and responses, by their schemas."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.shapes import answer_rows, code_field, names_topics, request_rows, rows_in
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.schemas import message_class
from tests.support.wire.sample_requests import sample_request


def test_rows_are_the_arrays_that_are_answered_one_by_one() -> None:
    fetch = answer_rows(message_class(ApiKey.FETCH, 12, "response"))
    assert fetch is not None
    assert (fetch[0], fetch[1].__name__) == ("responses", "FetchableTopicResponse")
    assert answer_rows(message_class(ApiKey.JOIN_GROUP, 9, "response")) is None
    assert request_rows(message_class(ApiKey.PRODUCE, 9, "request")) is not None
    assert request_rows(int) is None


def test_the_code_of_a_row_is_found_under_both_of_its_names() -> None:
    assert code_field(message_class(ApiKey.HEARTBEAT, 4, "response")) == "error_code"
    assert code_field(message_class(ApiKey.ADD_PARTITIONS_TO_TXN, 3, "response")) is None
    assert code_field(message_class(ApiKey.PRODUCE, 9, "response")) is None


@pytest.mark.parametrize(
    ("api", "has_topics"),
    [
        (ApiKey.PRODUCE, True),
        (ApiKey.OFFSET_FETCH, True),
        (ApiKey.ADD_PARTITIONS_TO_TXN, True),
        (ApiKey.CREATE_TOPICS, True),
        (ApiKey.METADATA, True),
        (ApiKey.HEARTBEAT, False),
        (ApiKey.JOIN_GROUP, False),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, False),
        (ApiKey.ALTER_REPLICA_LOG_DIRS, False),
    ],
)
def test_topics_are_rows_of_some_apis_only(api: ApiKey, has_topics: bool) -> None:
    assert names_topics(api, max(version for version in range(20) if _exists(api, version))) is has_topics


def test_rows_of_log_dirs_are_topics() -> None:
    rows = rows_in(sample_request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2))
    assert [row.name for row in rows] == ["sample"]
    assert len(rows_in(sample_request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0))) == 2


def _exists(api: ApiKey, version: int) -> bool:
    from crabka.protocol.api_keys import SPECS

    return SPECS[api].supports(version)
