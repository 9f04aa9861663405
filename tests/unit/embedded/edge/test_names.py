"""Names of APIs and errors as tests write them."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.names import api_named, error_name, error_named
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("name", ["OffsetCommit", "offset_commit", "OFFSET_COMMIT", "offsetcommit"])
def test_an_api_is_found_in_any_spelling(name: str) -> None:
    assert api_named(name).key == ApiKey.OFFSET_COMMIT


def test_an_error_is_found_and_named_as_kafka_does() -> None:
    assert error_named("not_leader_or_follower") is ErrorCode.not_leader_or_follower
    assert error_name(error_named("NOT_LEADER_OR_FOLLOWER")) == "NOT_LEADER_OR_FOLLOWER"


def test_an_unknown_name_is_refused_with_those_that_come_close() -> None:
    with pytest.raises(ValueError, match=r"Kafka has no API 'OfsetCommit': did you mean OffsetCommit"):
        api_named("OfsetCommit")
    with pytest.raises(ValueError, match=r"no error 'NOT_LEADER': did you mean .*NOT_LEADER_OR_FOLLOWER|for example"):
        error_named("NOT_LEADER")
    with pytest.raises(ValueError, match=r"no API 'xyzzy': for example Produce"):
        api_named("xyzzy")


def test_success_and_apis_of_controllers_are_no_faults() -> None:
    with pytest.raises(ValueError, match="no error"):
        error_named("NONE")
    with pytest.raises(ValueError, match="no API"):
        api_named("BrokerHeartbeat")
