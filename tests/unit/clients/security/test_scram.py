"""SCRAM: the examples of the RFCs, and servers that cheat or talk nonsense."""

from __future__ import annotations

import base64

import pytest

from crabka.clients.security.scram import MAX_ITERATIONS, ScramClient, ScramError
from crabka.security.sasl.scram_keys import MIN_ITERATIONS, SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism
from crabka.security.secret import Secret
from tests.support.clients.scram_server import ScramServer, WrongProofError

NONCE = "fyko+d2lbbFgONRv9qkxdawL"
SHA_1 = ScramMechanism("SCRAM-SHA-1", "sha1")


def client(mechanism: ScramMechanism = SCRAM_SHA_256, *, username: str = "user", nonce: str = NONCE) -> ScramClient:
    return ScramClient(mechanism, username, Secret("pencil"), nonce)


def challenged(server_first: bytes) -> ScramClient:
    started = client()
    started.respond(b"")
    started.respond(server_first)
    return started


def test_example_of_rfc_5802() -> None:
    exchange = client(SHA_1)
    assert exchange.respond(b"") == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    first = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    assert exchange.respond(first) == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    assert not exchange.is_complete
    assert exchange.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None
    assert exchange.is_complete


def test_example_of_rfc_7677() -> None:
    exchange = client(SCRAM_SHA_256, nonce="rOprNGfwEbeRWgbNEkqO")
    assert exchange.respond(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.respond(first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_client_and_server_convince_each_other(mechanism: ScramMechanism) -> None:
    server, exchange = ScramServer("pencil", mechanism), client(mechanism)
    first = exchange.respond(b"")
    assert first is not None
    proof = exchange.respond(server.first(first))
    assert proof is not None
    assert exchange.respond(server.final(proof)) is None
    assert exchange.is_complete


def test_server_notices_a_wrong_password() -> None:
    server, exchange = ScramServer("crayon"), client()
    proof = exchange.respond(server.first(exchange.respond(b"") or b""))
    with pytest.raises(WrongProofError):
        server.final(proof or b"")


def test_client_notices_a_server_that_does_not_know_the_password() -> None:
    exchange = challenged(b"r=" + NONCE.encode() + b"x,s=QSXCR+Q6sek8bf92,i=4096")
    with pytest.raises(ScramError, match="signature of the server is wrong"):
        exchange.respond(b"v=" + base64.b64encode(b"\0" * 32))
    assert not exchange.is_complete


def test_commas_and_equal_signs_in_names_are_escaped() -> None:
    assert client(username="a=b,c").respond(b"") == b"n,,n=a=3Db=2Cc,r=" + NONCE.encode()


@pytest.mark.parametrize("iterations", [0, 1, MIN_ITERATIONS - 1, MAX_ITERATIONS + 1, 10**8])
def test_iterations_out_of_bounds_are_refused(iterations: int) -> None:
    with pytest.raises(ScramError, match=f"{iterations} iterations"):
        challenged(f"r={NONCE}x,s=QSXCR+Q6sek8bf92,i={iterations}".encode())


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "not nonce, salt and iterations"),
        (b"e=other-error", "not nonce, salt and iterations"),
        (b"m=must,r=" + NONCE.encode() + b"x,s=QSXC,i=4096", "not nonce, salt and iterations"),
        (b"r=" + NONCE.encode() + b"x,i=4096,s=QSXC", "not nonce, salt and iterations"),
        (b"r=another,s=QSXC,i=4096", "another nonce"),
        (b"r=" + NONCE.encode() + b"x,s=QS!C,i=4096", "base64"),
        (b"r=" + NONCE.encode() + b"x,s=QSX,i=4096", "base64"),
        (b"r=" + NONCE.encode() + b"x,s=,i=4096", "empty"),
        (b"r=" + NONCE.encode() + b"x,s=QSXC,i=-4096", "no number"),
        (b"r=" + NONCE.encode() + b"x,s=QSXC,i=" + b"9" * 10_000, "no number"),
        ("r=x,s=QSXC,i=\u0664\u0665".encode(), "no number"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_nonsense_instead_of_the_first_message_is_refused(message: bytes, complaint: str) -> None:
    with pytest.raises(ScramError, match=complaint):
        challenged(message)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"e=invalid-proof", "'invalid-proof'"),
        (b"e=" + b"x" * 1000, "'x{80}'$"),
        (b"", "no signature"),
        (b"c=biws", "no signature"),
        (b"v=", "empty"),
        (b"v=%%%%", "base64"),
        (b"\xff", "UTF-8"),
    ],
)
def test_nonsense_instead_of_the_last_message_is_refused(message: bytes, complaint: str) -> None:
    exchange = challenged(b"r=" + NONCE.encode() + b"x,s=QSXCR+Q6sek8bf92,i=4096")
    with pytest.raises(ScramError, match=complaint):
        exchange.respond(message)


def test_extensions_behind_what_is_known_are_ignored() -> None:
    exchange = client(SHA_1)
    exchange.respond(b"")
    # An extension is part of what both sides sign, so the example's proof changes, and nothing else.
    answer = exchange.respond(b"r=fyko+d2lbbFgONRv9qkxdawL3rfc,s=QSXCR+Q6sek8bf92,i=4096,x=new")
    assert answer is not None
    assert answer.startswith(b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfc,p=")


def test_an_exchange_ends_once() -> None:
    with pytest.raises(ScramError, match="before the client"):
        client().respond(b"hello")
    failed = client()
    failed.respond(b"")
    with pytest.raises(ScramError, match="not nonce"):
        failed.respond(b"")
    with pytest.raises(ScramError, match="after the end"):
        failed.respond(b"r=" + NONCE.encode() + b"x,s=QSXC,i=4096")
