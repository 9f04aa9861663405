"""How a lone voter becomes leader: check that it may, take the next epoch durably, announce it in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kio.schema.leader_change_message.v0.data import Voter as LeaderChangeVoterV0
from kio.schema.types import BrokerId
from kio.static.primitive import i16

from crabka.errors import ConfigError
from crabka.quorum.state_file import QuorumStateFile, read_quorum_state, write_quorum_state
from crabka.quorum.voters import VoterNode, kraft_version_record, voters_to_record
from crabka.records.control import LeaderChangeMessageV0, build_control_batch

if TYPE_CHECKING:
    from uuid import UUID

    from crabka.quorum.loading import LoadedMetadata
    from crabka.quorum.storage import MetadataStorage


@dataclass(frozen=True, slots=True)
class Leadership:
    """This node leads in this epoch."""

    node_id: int
    epoch: int


def take_leadership(storage: MetadataStorage, node_id: int) -> Leadership:
    """Move to the next epoch and keep that in `quorum-state` before anything is written in it.

    Raises ConfigError if the directory is another node's, or other voters have a say.
    """
    if storage.properties.node_id != node_id:
        raise ConfigError(f"{storage.metadata_dir} belongs to node {storage.properties.node_id}, not to {node_id}")
    check_only_voter(storage.loaded.voters, node_id, storage.properties.directory_id)
    state = read_quorum_state(storage.fs, storage.directory)
    known = 0 if state is None else state.leader_epoch
    epoch = max(known, storage.log.last_epoch, storage.loaded.replay.image.epoch) + 1
    write_quorum_state(storage.fs, storage.directory, QuorumStateFile(leader_id=node_id, leader_epoch=epoch))
    return Leadership(node_id, epoch)


def check_only_voter(voters: Sequence[VoterNode], node_id: int, directory_id: UUID | None) -> None:
    """Raise ConfigError unless the voter set is this node with this directory, or is not in the metadata at all."""
    if not voters:
        return
    ids = sorted(voter.voter_id for voter in voters)
    if ids != [node_id]:
        raise ConfigError(f"the metadata belongs to a quorum of nodes {ids}: node {node_id} cannot lead it alone")
    if directory_id is not None and voters[0].directory_id != directory_id:
        raise ConfigError(f"node {node_id} is a voter with another directory id than that of its metadata directory")


def leader_change_batch(leadership: Leadership, loaded: LoadedMetadata, *, base_offset: int, now_ms: int) -> bytes:
    """Return the control batch that opens an epoch; the first one of a log also carries the formatted voters."""
    voter = LeaderChangeVoterV0(voter_id=BrokerId(leadership.node_id))
    change = LeaderChangeMessageV0(
        version=i16(0), leader_id=BrokerId(leadership.node_id), voters=(voter,), granting_voters=(voter,)
    )
    messages: list[Any] = [change]
    if base_offset == 0 and loaded.kraft_version > 0:
        messages += [kraft_version_record(loaded.kraft_version), voters_to_record(loaded.voters)]
    return build_control_batch(messages, timestamp=now_ms, base_offset=base_offset, leader_epoch=leadership.epoch)
