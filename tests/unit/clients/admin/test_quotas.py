"""Client quotas over the administrative client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.clients.admin.quotas import EntityQuotas, QuotaAdmin
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, request_types, response_types
from crabka.protocol.error_codes import ErrorCode


class Requests:
    """Answers every request with a given response and remembers the request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: Any = None

    async def ask(self, api_key: ApiKey, build: Any) -> Any:
        self.asked = build(request_types(api_key, 1))
        return self.answer


def test_a_name_matches_exactly_and_none_the_default() -> None:
    types = response_types(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)
    entity = [
        types.new("EntityData", entity_type="user", entity_name=None),
        types.new("EntityData", entity_type="client-id", entity_name="app"),
    ]
    values = [types.new("ValueData", key="request_percentage", value=50.0)]
    entry = types.new("EntryData", entity=entity, values=values)
    answer = types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, entries=[entry])
    requests: Any = Requests(answer)
    found = asyncio.run(QuotaAdmin(requests).describe({"user": None, "client-id": "app"}, strict=True))
    assert found == [EntityQuotas({"user": None, "client-id": "app"}, {"request_percentage": 50.0})]
    sent = [(each.entity_type, each.match_type, each.match) for each in requests.asked.components]
    assert sent == [("user", 1, None), ("client-id", 0, "app")]
    assert requests.asked.strict


def test_a_cluster_may_answer_without_entries() -> None:
    types = response_types(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)
    fields = {"throttle_time": 0, "error_message": "no", "entries": None}
    requests: Any = Requests(types.message(error_code=ErrorCode.none, **fields))
    assert asyncio.run(QuotaAdmin(requests).describe({})) == []
    requests = Requests(types.message(error_code=ErrorCode.invalid_request, **fields))
    with pytest.raises(OperationError, match="quotas: no"):
        asyncio.run(QuotaAdmin(requests).describe({}))


def test_a_value_of_none_removes_and_a_refusal_is_raised() -> None:
    types = response_types(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    entity = [types.new("EntityData", entity_type="user", entity_name="a")]
    entry = types.new("EntryData", error_code=ErrorCode.invalid_request, error_message="no", entity=entity)
    requests: Any = Requests(types.message(throttle_time=0, entries=[entry]))
    changes = {"producer_byte_rate": 10.0, "consumer_byte_rate": None}
    with pytest.raises(OperationError, match="quotas: no"):
        asyncio.run(QuotaAdmin(requests).alter({"user": "a"}, changes))
    (sent,) = requests.asked.entries
    assert [(each.key, each.value, each.remove) for each in sent.ops] == [
        ("producer_byte_rate", 10.0, False),
        ("consumer_byte_rate", 0.0, True),
    ]
    assert not requests.asked.validate_only
