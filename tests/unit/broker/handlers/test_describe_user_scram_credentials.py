"""DescribeUserScramCredentials over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.metadata.records import UserScramCredentialRecord
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of


def ask(node: SimNode, *names: str, version: int = 0) -> Any:
    users = [row("UserName", name=name) for name in names] or None
    return node.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, version, users=users).results


def store(node: SimNode, user: str) -> None:
    record = UserScramCredentialRecord(
        name=user, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )

    async def append() -> None:
        await node.context.quorum.append([record])

    node.run(append())


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS))
def test_stored_credentials_are_listed(node: SimNode, version: int) -> None:
    assert ask(node, version=version) == ()
    store(node, "alice")
    (found,) = ask(node, version=version)
    assert (found.user, found.error_code) == ("alice", ErrorCode.none)
    assert [(each.mechanism, each.iterations) for each in found.credential_infos] == [(1, 4096)]


def test_unknown_and_repeated_users_are_reported(node: SimNode) -> None:
    store(node, "alice")
    bob, alice = ask(node, "bob", "alice", "alice")
    assert bob.error_code is ErrorCode.resource_not_found
    assert alice.error_code is ErrorCode.duplicate_resource
    assert alice.credential_infos == ()
