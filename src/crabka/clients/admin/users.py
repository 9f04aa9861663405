"""Administration of the users of SCRAM (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from crabka.clients.admin.requests import AdminRequests, check
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_credentials import SaltedCredential


class StoredCredential(NamedTuple):
    """What a cluster shows of a credential: never its keys."""

    user: str
    # The number of the mechanism in the protocol.
    mechanism: int
    iterations: int


class UserAdmin:
    """Calls about users of SCRAM. All raise OperationError: cluster_authorization_failed, unacceptable_credential."""

    def __init__(self, requests: AdminRequests) -> None:
        self._ask = requests.ask

    async def describe(self, names: Sequence[str] = ()) -> list[StoredCredential]:
        """Return the credentials of users, or of all; a user without any is left out."""

        def build(types: MessageTypes) -> Any:
            users = [types.new("UserName", name=name) for name in dict.fromkeys(names)]
            return types.message(users=users or None)

        response = await self._ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, build)
        check(response, "users")
        found: list[StoredCredential] = []
        for result in response.results:
            if result.error_code is ErrorCode.resource_not_found:
                continue
            check(result, f"user {result.user}")
            found += [
                StoredCredential(result.user, each.mechanism, each.iterations) for each in result.credential_infos
            ]
        return sorted(found)

    async def upsert(self, credential: SaltedCredential) -> None:
        """Store a credential; it replaces the one of the same user and mechanism."""

        def build(types: MessageTypes) -> Any:
            upsertion = types.new(
                "ScramCredentialUpsertion",
                name=credential.key.user,
                mechanism=credential.key.mechanism,
                iterations=credential.iterations,
                salt=credential.salt,
                salted_password=credential.salted_password,
            )
            return types.message(deletions=[], upsertions=[upsertion])

        await self._alter(build)

    async def delete(self, user: str, mechanism: int) -> None:
        """Remove a credential. Raises OperationError(resource_not_found)."""

        def build(types: MessageTypes) -> Any:
            deletion = types.new("ScramCredentialDeletion", name=user, mechanism=mechanism)
            return types.message(deletions=[deletion], upsertions=[])

        await self._alter(build)

    async def _alter(self, build: Any) -> None:
        # A request may name a user once, so each credential is a request of its own.
        response = await self._ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, build)
        for result in response.results:
            check(result, f"user {result.user}")
