"""PLAIN at the server: the texts are those of Apache Kafka's PlainSaslServer."""

from __future__ import annotations

import pytest

from crabka.security.sasl.exchange import SaslRefusedError
from crabka.security.sasl.plain_server import PlainServer
from crabka.security.secret import Secret

USERS = {"alice": Secret("wonder"), "żółw": Secret("pass,w0rd=="), "empty": Secret("")}
INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "user"),
    [
        ("\0alice\0wonder", "alice"),
        ("alice\0alice\0wonder", "alice"),
        ("\0żółw\0pass,w0rd==", "żółw"),
    ],
)
def test_known_user(token: str, user: str) -> None:
    exchange = PlainServer(USERS)
    assert exchange.user is None
    assert exchange.respond(token.encode()) == b""
    assert exchange.user == user


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (b"\0alice\0wonderland", INVALID),
        (b"\0alice\0wonde", INVALID),
        (b"\0bob\0wonder", INVALID),
        (b"\0\xff\xfe\0wonder", INVALID),
        (b"\0alice\0\xff", INVALID),
        (
            b"bob\0alice\0wonder",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0land", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0empty\0", "Authentication failed: password not specified"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
    ],
)
def test_refused(token: bytes, shown: str) -> None:
    exchange = PlainServer(USERS)
    with pytest.raises(SaslRefusedError) as caught:
        exchange.respond(token)
    assert caught.value.shown == shown
    assert exchange.user is None
    assert not {"alice", "bob", "wonder"} & set(str(caught.value).split())
