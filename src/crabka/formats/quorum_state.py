"""`quorum-state`: the leader and the vote that a node must not forget (KIP-595, KIP-853).

Version 1 belongs to dynamic quorums and has no voters; version 0 has them and the cluster id, and is only read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import ZERO_UUID, uuid_from_text, uuid_to_text

FILE_NAME: Final = "quorum-state"
VERSION: Final = 1
NO_NODE: Final = -1
_MAX_INT32: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class QuorumStateFile:
    """The newest known epoch, its leader if known, and whom this node voted for in it."""

    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: UUID = ZERO_UUID


def decode_quorum_state(data: bytes, where: str = FILE_NAME) -> QuorumStateFile:
    """Read version 0 or 1. Raises CorruptDataError for anything else, and for numbers that no node writes."""
    try:
        fields = json.loads(data)
        version = fields["data_version"]
        if version not in (0, VERSION):
            raise CorruptDataError(where, f"data_version {version}: known are 0 and {VERSION}")
        voted_directory = fields.get("votedDirectoryId")
        return QuorumStateFile(
            leader_id=_ranged(fields, "leaderId", NO_NODE, where),
            leader_epoch=_ranged(fields, "leaderEpoch", 0, where),
            voted_id=_ranged(fields, "votedId", NO_NODE, where),
            voted_directory_id=ZERO_UUID if voted_directory is None else uuid_from_text(voted_directory),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(where, f"malformed: {error!r}") from error


def _ranged(fields: dict[str, Any], name: str, lowest: int, where: str) -> int:
    """Return an int32 of the file. Raises CorruptDataError, TypeError."""
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    if not lowest <= value <= _MAX_INT32:
        raise CorruptDataError(where, f"{name} {value} is not within {lowest} to {_MAX_INT32}")
    return value


def encode_quorum_state(state: QuorumStateFile) -> bytes:
    """Return the content of version 1, as Kafka writes it."""
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": uuid_to_text(state.voted_directory_id),
        "data_version": VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()
