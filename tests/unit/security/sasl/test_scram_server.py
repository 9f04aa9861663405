"""SCRAM at the server: the example of the RFC, our own client, and clients that cheat."""

from __future__ import annotations

import base64

import pytest

from crabka.clients.security.scram import ScramClient, ScramError
from crabka.security.sasl.exchange import SaslRefusedError
from crabka.security.sasl.scram_keys import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramMechanism,
    StoredScramKeys,
    derive_keys,
    exclusive_or,
    salted_password,
    stored_keys,
)
from crabka.security.sasl.scram_server import ScramServer, UnknownUsers, scram_text
from crabka.security.secret import Secret

UNKNOWN = UnknownUsers(b"k" * 32)
PASSWORD = Secret("pencil")
NONCE = "3rfcNHYJY1ZVvWVs7j"


def keys_of(mechanism: ScramMechanism, salt: bytes = b"salt", iterations: int = 4096) -> StoredScramKeys:
    return stored_keys(mechanism, salted_password(mechanism, PASSWORD, salt, iterations), salt, iterations)


def server_of(mechanism: ScramMechanism = SCRAM_SHA_256, nonce: str = NONCE) -> ScramServer:
    users = {name: keys_of(mechanism) for name in ("user", "a,b=c")}
    return ScramServer(mechanism, users.get, UNKNOWN, nonce)


def exchange_messages(server: ScramServer, client: ScramClient) -> None:
    """Carry messages to and fro until the client is satisfied."""
    message = client.respond(b"")
    while message is not None:
        message = client.respond(server.respond(message))


def test_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    server = ScramServer(
        SCRAM_SHA_256, {"user": keys_of(SCRAM_SHA_256, salt)}.get, UNKNOWN, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.user is None
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.respond(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("name", ["user", "a,b=c"])
def test_our_client_and_server_convince_each_other(mechanism: ScramMechanism, name: str) -> None:
    server, client = server_of(mechanism), ScramClient(mechanism, name, PASSWORD, "fyko")
    exchange_messages(server, client)
    assert client.is_complete
    assert server.user == name


@pytest.mark.parametrize("name", ["user", "stranger"])
def test_wrong_password_and_unknown_user_look_alike(name: str) -> None:
    server, client = server_of(), ScramClient(SCRAM_SHA_256, name, Secret("wr0ng"), "fyko")
    first = client.respond(b"")
    assert first is not None
    final = client.respond(server.respond(first))
    assert final is not None
    with pytest.raises(SaslRefusedError, match="the user is unknown or the password is wrong") as caught:
        server.respond(final)
    assert caught.value.shown is None
    assert server.user is None


def test_an_unknown_user_cannot_log_in_by_knowing_what_was_invented() -> None:
    invented = UNKNOWN.keys_of(SCRAM_SHA_256, "stranger")
    assert invented == UNKNOWN.keys_of(SCRAM_SHA_256, "stranger")
    assert invented != UNKNOWN.keys_of(SCRAM_SHA_256, "another")
    assert invented.salt.isalnum()
    server = server_of()
    challenge = server.respond(b"n,,n=stranger,r=fyko")
    assert base64.b64encode(invented.salt) in challenge


def test_an_unknown_user_is_refused_even_with_a_proof() -> None:
    class Careless(UnknownUsers):
        """Invents the keys of a password that can be guessed."""

        def keys_of(self, mechanism: ScramMechanism, user: str) -> StoredScramKeys:
            return keys_of(mechanism)

    server = ScramServer(SCRAM_SHA_256, lambda _: None, Careless(b"k"), NONCE)
    with pytest.raises(SaslRefusedError, match="the user is unknown"):
        server.respond(proved(server, b"n,,", b"n=stranger,r=fyko"))
    assert server.user is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=fyko",
        b"n,,n=user,r=",
        b"n,,r=fyko,n=user",
        b"y,,n=user,r=fyko",
        b"p=tls-unique,,n=user,r=fyko",
        b"n,,m=mandatory,n=user,r=fyko",
        b"n,,n=us=er,r=fyko",
        "n,,n=żółw,r=fyko".encode(),
        b"n,,n=user,r=fy ko",
        b"n,,n=user,r=fyko,tokenauth=true",
    ],
)
def test_malformed_first_message(message: bytes) -> None:
    server = server_of()
    with pytest.raises(SaslRefusedError):
        server.respond(message)
    with pytest.raises(SaslRefusedError, match="after the end"):
        server.respond(b"n,,n=user,r=fyko")


def final_message(change: str) -> bytes:
    """Return the right last message with one mistake; without a change it is right."""
    client = ScramClient(SCRAM_SHA_256, "user", PASSWORD, "fyko")
    first = client.respond(b"")
    assert first is not None
    final = client.respond(server_of().respond(first))
    assert final is not None
    binding, nonce, proof = final.decode().split(",")
    match change:
        case "binding":
            binding = "c=" + base64.b64encode(b"y,,").decode()
        case "nonce":
            nonce = nonce[:-1] + "k"
        case "nonce of the client alone":
            nonce = "r=fyko"
        case "proof":
            proof = "p=" + base64.b64encode(bytes(32)).decode()
        case "short proof":
            proof = "p=" + base64.b64encode(bytes(16)).decode()
        case "no proof":
            return f"{binding},{nonce}".encode()
        case "extension":
            # It is part of what both sides sign.
            nonce += ",x=y"
    return f"{binding},{nonce},{proof}".encode()


def test_right_last_message() -> None:
    server = server_of()
    server.respond(b"n,,n=user,r=fyko")
    assert server.respond(final_message("")).startswith(b"v=")


@pytest.mark.parametrize(
    "change", ["binding", "nonce", "nonce of the client alone", "proof", "short proof", "no proof", "extension"]
)
def test_wrong_last_message(change: str) -> None:
    server = server_of()
    server.respond(b"n,,n=user,r=fyko")
    with pytest.raises(SaslRefusedError):
        server.respond(final_message(change))
    assert server.user is None


def proved(server: ScramServer, header: bytes, bare: bytes) -> bytes:
    """Return the last message of a user who knows the password and sends any header."""
    challenge = server.respond(header + bare)
    nonce = challenge.split(b",")[0].removeprefix(b"r=")
    unproved = b"c=" + base64.b64encode(header) + b",r=" + nonce
    mechanism, salted = SCRAM_SHA_256, salted_password(SCRAM_SHA_256, PASSWORD, b"salt", 4096)
    client_key = derive_keys(mechanism, salted).client_key
    signature = mechanism.hmac(mechanism.hash(client_key), b",".join((bare, challenge, unproved)))
    return unproved + b",p=" + base64.b64encode(exclusive_or(client_key, signature))


def test_acting_as_another_user() -> None:
    server = server_of()
    with pytest.raises(SaslRefusedError, match="another user") as caught:
        server.respond(proved(server, b"n,a=admin,", b"n=user,r=fyko"))
    assert caught.value.shown is not None
    assert server.user is None


def test_acting_as_oneself() -> None:
    server = server_of()
    server.respond(proved(server, b"n,a=user,", b"n=user,r=fyko,x=y"))
    assert server.user == "user"


def test_client_notices_a_server_that_does_not_know_the_password() -> None:
    client = ScramClient(SCRAM_SHA_256, "user", PASSWORD, "fyko")
    first = client.respond(b"")
    assert first is not None
    client.respond(server_of().respond(first))
    with pytest.raises(ScramError, match="does not know"):
        client.respond(b"v=" + base64.b64encode(bytes(32)))


def test_texts_of_nonces_and_salts() -> None:
    assert [scram_text(number) for number in (0, 35, 36, 36**3)] == ["0", "z", "10", "1000"]


def test_no_secret_in_texts() -> None:
    keys = keys_of(SCRAM_SHA_256)
    assert repr(keys.stored_key) not in repr(keys)
