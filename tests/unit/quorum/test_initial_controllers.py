"""The text that names the voters of a new quorum."""

from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.ids import uuid_from_text
from crabka.quorum.initial_controllers import parse_initial_controllers
from crabka.quorum.log.voters import VoterEndpoint, VoterNode

FIRST = "JEXY6aqzQY-32P5TStzaFg"
SECOND = "MvDxzVmcRsaTz33bUuRU6A"


def test_voters_come_by_id_with_the_listener_of_controllers() -> None:
    text = f" 2@[::1]:9094:{SECOND}, 1@one.example:9093:{FIRST},"
    assert parse_initial_controllers(text, "CONTROLLER") == (
        VoterNode(1, uuid_from_text(FIRST), (VoterEndpoint("CONTROLLER", "one.example", 9093),)),
        VoterNode(2, uuid_from_text(SECOND), (VoterEndpoint("CONTROLLER", "::1", 9094),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no voters are given"),
        (" , ", "no voters are given"),
        (f"1h:1:{FIRST}", "there is no @"),
        (f"x@h:1:{FIRST}", "the node id 'x' is not a number"),
        (f"-1@h:1:{FIRST}", "the node id '-1' is not a number"),
        ("1@h:1", "no port or no directory id"),
        (f"1@h:x:{FIRST}", "'h:x' is not an address"),
        (f"1@h:70000:{FIRST}", "'h:70000' is not an address"),
        (f"1@:1:{FIRST}", "there is no host"),
        ("1@h:1:short", "the directory id 'short' is not a base64url UUID"),
        ("1@h:1:JEXY6aqzQY", "holds 7 bytes, a UUID has 16"),
        ("1@h:1:AAAAAAAAAAAAAAAAAAAAAA", "is reserved"),
        (f"1@h:1:{FIRST},1@h:2:{SECOND}", "node id 1 is given more than once"),
    ],
)
def test_every_bad_part_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_initial_controllers(text, "CONTROLLER")
    assert message in str(refused.value)
