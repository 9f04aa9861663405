"""Users of SCRAM over the administrative client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.clients.admin.users import StoredCredential, UserAdmin
from crabka.errors import OperationError
from crabka.metadata.security import ScramKey
from crabka.protocol.apis import ApiKey, request_types, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_credentials import SaltedCredential


class Requests:
    """Answers every request with a given response and remembers the request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: Any = None

    async def ask(self, api_key: ApiKey, build: Any) -> Any:
        self.asked = build(request_types(api_key, 0))
        return self.answer


def described(*results: Any) -> Any:
    types = response_types(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    return types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, results=results)


def result(user: str, code: ErrorCode, *mechanisms: int) -> Any:
    types = response_types(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    infos = [types.new("CredentialInfo", mechanism=each, iterations=4096) for each in mechanisms]
    return types.new(
        "DescribeUserScramCredentialsResult",
        user=user,
        error_code=code,
        error_message="why",
        credential_infos=infos,
    )


def test_users_without_credentials_are_left_out() -> None:
    answer = described(result("zoe", ErrorCode.resource_not_found), result("bob", ErrorCode.none, 2, 1))
    requests: Any = Requests(answer)
    found = asyncio.run(UserAdmin(requests).describe(["zoe", "bob", "bob"]))
    assert found == [StoredCredential("bob", 1, 4096), StoredCredential("bob", 2, 4096)]
    assert [each.name for each in requests.asked.users] == ["zoe", "bob"]


def test_without_names_all_users_are_asked_for() -> None:
    requests: Any = Requests(described())
    assert asyncio.run(UserAdmin(requests).describe()) == []
    assert requests.asked.users is None


def test_another_error_of_a_user_is_raised() -> None:
    requests: Any = Requests(described(result("bob", ErrorCode.unknown_server_error)))
    with pytest.raises(OperationError, match="user bob: why"):
        asyncio.run(UserAdmin(requests).describe())


def test_a_refused_credential_is_raised_without_its_secret() -> None:
    types = response_types(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    refused = types.new(
        "AlterUserScramCredentialsResult",
        user="bob",
        error_code=ErrorCode.unacceptable_credential,
        error_message="Too few iterations",
    )
    requests: Any = Requests(types.message(throttle_time=0, results=[refused]))
    credential = SaltedCredential(ScramKey(2, "bob"), 4096, b"salt", b"canary")
    with pytest.raises(OperationError, match=r"^user bob: Too few iterations$"):
        asyncio.run(UserAdmin(requests).upsert(credential))
    (sent,) = requests.asked.upsertions
    assert (sent.name, sent.mechanism, sent.iterations, sent.salt, sent.salted_password) == (
        *("bob", 2, 4096),
        *(b"salt", b"canary"),
    )
    assert requests.asked.deletions == ()
    with pytest.raises(OperationError):
        asyncio.run(UserAdmin(requests).delete("bob", 1))
    (removed,) = requests.asked.deletions
    assert (removed.name, removed.mechanism) == ("bob", 1)
