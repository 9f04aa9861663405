from __future__ import annotations

from uuid import UUID

from crabka.quorum.log.voters import (
    VoterEndpoint,
    VoterNode,
    kraft_version_record,
    voters_from_record,
    voters_to_record,
)


def test_voters_survive_their_record() -> None:
    voters = (
        VoterNode(1, UUID(int=11), (VoterEndpoint("CONTROLLER", "a", 1), VoterEndpoint("OTHER", "b", 65535))),
        VoterNode(2, UUID(int=0), (), min_kraft_version=0, max_kraft_version=0),
    )
    assert voters_from_record(voters_to_record(voters)) == voters


def test_the_kraft_version_is_carried() -> None:
    assert kraft_version_record(1).k_raft_version == 1
