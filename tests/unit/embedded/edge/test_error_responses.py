"""Error responses of all APIs."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.embedded.edge.error_responses import error_response
from crabka.embedded.edge.fields import error_codes_of
from crabka.protocol.api_keys import SPECS, ApiKey
from crabka.protocol.apis import encode_response, read_response
from crabka.protocol.error_codes import ErrorCode
from tests.support.scale import soaking
from tests.support.wire.sample_requests import SAMPLE_PARTITION, SAMPLE_TOPIC_ID, sample_request

ERROR = ErrorCode.not_coordinator
# All versions of what clients send all the time; of the others the newest.
OFTEN = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR)


def failed(api_key: int, version: int, *, in_rows: bool = False, code: ErrorCode = ERROR) -> Any:
    """Return the response to a sample request after it went over the wire."""
    response = error_response(api_key, version, sample_request(api_key, version), code, in_rows=in_rows)
    return read_response(api_key, version, encode_response(response))


@pytest.mark.parametrize("key", [spec.key for spec in SPECS.values() if spec.on_broker], ids=lambda key: key.name)
def test_every_api_can_report_an_error_as_a_whole_and_in_its_rows(key: ApiKey) -> None:
    spec = SPECS[key]
    versions = range(spec.min_version, spec.max_version + 1)
    for version in versions if key in OFTEN or soaking() else versions[-1:]:
        for in_rows in (False, True):
            assert error_codes_of(failed(key, version, in_rows=in_rows)) == [ERROR], (version, in_rows)


@pytest.mark.parametrize("version", [9, 13])
def test_a_failed_produce_has_no_offsets(version: int) -> None:
    [topic] = failed(ApiKey.PRODUCE, version).responses
    [row] = topic.partition_responses
    assert (row.index, row.error_code, row.base_offset, row.log_append_time) == (SAMPLE_PARTITION, ERROR, -1, None)
    assert row.error_message == "This is not the correct coordinator."
    assert topic.topic_id == SAMPLE_TOPIC_ID if version == 13 else topic.name == "sample"


def test_a_fetch_fails_as_a_whole_or_in_its_partitions() -> None:
    whole = failed(ApiKey.FETCH, 12)
    assert (whole.error_code, whole.responses) == (ERROR, ())
    rows = failed(ApiKey.FETCH, 12, in_rows=True)
    assert rows.error_code is ErrorCode.none
    [row] = rows.responses[0].partitions
    assert (row.partition_index, row.error_code, row.high_watermark, row.records) == (SAMPLE_PARTITION, ERROR, -1, None)


def test_rows_that_are_plain_names_or_numbers_are_answered() -> None:
    [coordinator] = failed(ApiKey.FIND_COORDINATOR, 4).coordinators
    assert (coordinator.key, coordinator.node_id, coordinator.error_code) == ("sample", -1, ERROR)
    [topic] = failed(ApiKey.ADD_PARTITIONS_TO_TXN, 3).results_by_topic_v3_and_below
    [row] = topic.results_by_partition
    assert (topic.name, row.partition_index, row.partition_error_code) == ("sample", SAMPLE_PARTITION, ERROR)
    [deleted] = failed(ApiKey.DELETE_GROUPS, 2).results
    assert (deleted.group_id, deleted.error_code) == ("sample", ERROR)


def test_a_request_of_a_member_fails_without_a_generation_or_an_id() -> None:
    joined = failed(ApiKey.JOIN_GROUP, 9)
    assert (joined.error_code, joined.generation_id, joined.member_id, joined.members) == (ERROR, -1, "", ())
    initialized = failed(ApiKey.INIT_PRODUCER_ID, 4)
    assert (initialized.producer_id, initialized.producer_epoch) == (-1, -1)


def test_identities_of_several_parts_are_copied() -> None:
    [entry] = failed(ApiKey.ALTER_CLIENT_QUOTAS, 1).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("sample", "sample")]
