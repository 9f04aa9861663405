"""Messages as plain values."""

from __future__ import annotations

from crabka.embedded.edge.error_responses import error_response
from crabka.embedded.edge.fields import error_codes_of, plain_fields
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import fetch_body
from tests.support.wire.sample_requests import sample_request


def test_fields_are_dicts_lists_and_milliseconds() -> None:
    fields = plain_fields(fetch_body([("t", 2, 7)], max_wait=500))
    assert fields["max_wait"] == 500
    assert [(topic["topic"], topic["partitions"][0]["fetch_offset"]) for topic in fields["topics"]] == [("t", 7)]


def test_errors_are_named_once_wherever_they_are() -> None:
    body = sample_request(ApiKey.PRODUCE, 9)
    response = error_response(ApiKey.PRODUCE, 9, body, ErrorCode.request_timed_out, in_rows=True)
    assert error_codes_of(response) == [ErrorCode.request_timed_out]
    assert plain_fields(response)["responses"][0]["partition_responses"][0]["error_code"] == "REQUEST_TIMED_OUT"
    assert error_codes_of(error_response(ApiKey.PRODUCE, 9, body, ErrorCode.none, in_rows=True)) == []
