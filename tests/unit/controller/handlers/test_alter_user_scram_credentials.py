"""AlterUserScramCredentials over the wire."""

from __future__ import annotations

import pytest

from crabka.metadata.security import ScramKey
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of

ALTER = ApiKey.ALTER_USER_SCRAM_CREDENTIALS


@pytest.mark.parametrize("version", versions_of(ALTER))
def test_every_version_stores_and_removes(node: SimNode, version: int) -> None:
    secret = {"salt": b"salt", "salted_password": b"canary"}
    upsertion = row("ScramCredentialUpsertion", name="alice", mechanism=2, iterations=5000, **secret)
    few = row("ScramCredentialUpsertion", name="bob", mechanism=2, iterations=1, **secret)
    answer = node.ask(ALTER, version, deletions=[], upsertions=[upsertion, few])
    assert [(each.user, each.error_code, each.error_message) for each in answer.results] == [
        ("alice", ErrorCode.none, None),
        ("bob", ErrorCode.unacceptable_credential, "Too few iterations"),
    ]
    stored = node.context.image.scram.credentials
    assert list(stored) == [ScramKey(2, "alice")]
    assert (stored[ScramKey(2, "alice")].salt, stored[ScramKey(2, "alice")].iterations) == (b"salt", 5000)
    assert "canary" not in repr(stored)
    deletion = row("ScramCredentialDeletion", name="alice", mechanism=2)
    answer = node.ask(ALTER, version, deletions=[deletion], upsertions=[])
    assert answer.results[0].error_code is ErrorCode.none
    assert not node.context.image.scram.credentials
