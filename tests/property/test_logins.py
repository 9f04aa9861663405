"""Log-ins from peers that send anything: nothing but a right password leads in, and nothing breaks the gate."""

from __future__ import annotations

import random
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.security.sasl.plain_server import PlainServer
from crabka.security.sasl.scram_keys import SCRAM_SHA_256, salted_password, stored_keys
from crabka.security.sasl.scram_server import ScramServer, UnknownUsers
from crabka.security.sasl.server_login import Answered, LoggedIn, LoginRules, PassOn, Refused, ServerLogin
from crabka.security.secret import Secret
from tests.support.clients.login_talk import authenticate, framed, handshake, request, versions
from tests.support.faults.mutations import mutated_frames
from tests.support.scale import scaled

PASSWORD = Secret("canary-password")
KEYS = stored_keys(SCRAM_SHA_256, salted_password(SCRAM_SHA_256, PASSWORD, b"salt", 4096), b"salt", 4096)
LENGTH_BYTES = 4
SEEDS = [
    *(versions(), handshake(), handshake("SCRAM-SHA-256"), handshake(version=0)),
    *(authenticate(b"\0alice\0canary-passwore", version) for version in range(3)),
    *(authenticate(b"n,,n=alice,r=abcdef"), authenticate(b"c=biws,r=abcdefnonce,p=AAAA")),
    *(framed(b"\0alice\0wrong"), framed(b"n,a=bob,n=alice,r=abcdef,x=y"), framed(b"\0")),
    request(ApiKey.LIST_GROUPS, 4, states_filter=()),
]


def begin(mechanism: str) -> Any:
    if mechanism == "PLAIN":
        return PlainServer({"alice": PASSWORD})
    return ScramServer(SCRAM_SHA_256, {"alice": KEYS}.get, UnknownUsers(b"k"), "nonce")


RULES = LoginRules(("PLAIN", "SCRAM-SHA-256"), begin, {})


def changed(rng: random.Random, frame: bytes) -> bytes:
    """Return a frame with flipped bits, a cut or other bytes in it; its length is right."""
    data = bytearray(frame[LENGTH_BYTES:])
    match rng.randrange(6):
        case 0 if data:
            del data[rng.randrange(len(data)) :]
        case 1:
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 40)))
        case 2 if data:
            for _ in range(rng.choice((1, 2, 8))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case _:
            pass
    return bytes(data)


def test_nothing_but_the_password_leads_in() -> None:
    rng = random.Random(20)
    foreign = [frame[LENGTH_BYTES:] for frame in mutated_frames(rng, 50)]
    outcomes = {PassOn: 0, Answered: 0, Refused: 0}
    for _ in range(scaled(4_000, 200_000)):
        login = ServerLogin(RULES)
        while True:
            frame = rng.choice(foreign) if rng.random() < 0.1 else changed(rng, rng.choice(SEEDS))
            action = login.receive(memoryview(frame))
            assert not isinstance(action, LoggedIn), frame
            outcomes[type(action)] += 1
            if isinstance(action, Refused):
                assert "canary" not in action.reason
                break
    assert min(outcomes.values()) > 100
