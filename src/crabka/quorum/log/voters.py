"""The voter set of the metadata quorum (KIP-853): conversion to and from its control record."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.types import BrokerId
from kio.static.primitive import i16, u16

from crabka.ids import ZERO_UUID
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.records.control import Endpoint, KRaftVersionFeature, KRaftVersionRecord, Voter, VotersRecord

__all__ = ["VoterEndpoint", "VoterNode", "kraft_version_record", "voters_from_record", "voters_to_record"]


def voters_from_record(record: VotersRecord) -> tuple[VoterNode, ...]:
    """Return the voter set in a control record."""
    return tuple(
        VoterNode(
            voter_id=voter.voter_id,
            directory_id=voter.voter_directory_id or ZERO_UUID,
            endpoints=tuple(VoterEndpoint(item.name, item.host, item.port) for item in voter.endpoints),
            min_kraft_version=voter.k_raft_version_feature.min_supported_version,
            max_kraft_version=voter.k_raft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )


def voters_to_record(voters: Sequence[VoterNode]) -> VotersRecord:
    """Return the control record of a voter set."""
    return VotersRecord(version=i16(0), voters=tuple(_voter(voter) for voter in voters))


def kraft_version_record(level: int) -> KRaftVersionRecord:
    """Return the control record of the kraft.version feature."""
    return KRaftVersionRecord(version=i16(0), k_raft_version=i16(level))


def _voter(voter: VoterNode) -> Voter:
    return Voter(
        voter_id=BrokerId(voter.voter_id),
        voter_directory_id=voter.directory_id,
        endpoints=tuple(Endpoint(name=item.name, host=item.host, port=u16(item.port)) for item in voter.endpoints),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=i16(voter.min_kraft_version), max_supported_version=i16(voter.max_kraft_version)
        ),
    )
