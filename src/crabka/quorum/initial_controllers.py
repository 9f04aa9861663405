"""Voters of a new quorum in text form: `id@host:port:directory id`, separated by commas (KIP-853).

All nodes of a cluster are formatted with the same text, and each controller takes its directory id from it.
"""

from __future__ import annotations

from uuid import UUID

from crabka.config.listeners import parse_address
from crabka.errors import ConfigError
from crabka.ids import ZERO_UUID, uuid_from_text
from crabka.quorum.log.voters import VoterEndpoint, VoterNode

_FORM = "ID@HOST:PORT:DIRECTORY_ID"


def parse_initial_controllers(text: str, listener_name: str) -> tuple[VoterNode, ...]:
    """Return the voters by id; their endpoints get the name of the controllers' listener. Raises ConfigError."""
    voters: dict[int, VoterNode] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        voter = _parse_voter(part, listener_name)
        if voter.voter_id in voters:
            raise ConfigError(f"node id {voter.voter_id} is given more than once in {text!r}")
        voters[voter.voter_id] = voter
    if not voters:
        raise ConfigError("no voters are given")
    return tuple(voters[voter_id] for voter_id in sorted(voters))


def _parse_voter(text: str, listener_name: str) -> VoterNode:
    node_id, at, rest = text.partition("@")
    if not at:
        raise _bad(text, "there is no @ after a node id")
    if not node_id.isdecimal():
        raise _bad(text, f"the node id {node_id!r} is not a number")
    address, colon, directory = rest.rpartition(":")
    if not colon or ":" not in address:
        raise _bad(text, "there is no port or no directory id")
    return VoterNode(int(node_id), _directory_id(text, directory), (_endpoint(text, address, listener_name),))


def _endpoint(text: str, address: str, listener_name: str) -> VoterEndpoint:
    try:
        host, port = parse_address(address)
    except ConfigError as error:
        raise _bad(text, str(error)) from error
    if not host:
        raise _bad(text, "there is no host")
    return VoterEndpoint(listener_name, host, port)


def _directory_id(text: str, directory: str) -> UUID:
    try:
        directory_id = uuid_from_text(directory)
    except ValueError as error:
        raise _bad(text, f"the directory id {error}") from error
    if directory_id == ZERO_UUID:
        raise _bad(text, f"the directory id {directory} is reserved")
    return directory_id


def _bad(text: str, reason: str) -> ConfigError:
    return ConfigError(f"{text!r} is not of the form {_FORM}: {reason}")
