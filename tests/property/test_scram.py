"""SCRAM between a client and a server that follow the RFC, and with servers that follow nothing."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabka.clients.security.scram import ScramClient, ScramError
from crabka.errors import ConfigError
from crabka.security.jaas import parse_jaas
from crabka.security.sasl.scram_keys import MIN_ITERATIONS, SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism
from crabka.security.secret import Secret
from tests.support.clients.scram_server import ScramServer, WrongProofError

MECHANISMS = st.sampled_from([SCRAM_SHA_256, SCRAM_SHA_512])
# Surrogates are no characters, NUL and an empty text are refused where settings are read.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
NONCES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1, max_size=30)
SALTS = st.binary(min_size=1, max_size=40)


@given(MECHANISMS, TEXTS, TEXTS, NONCES, NONCES, SALTS)
@settings(max_examples=12, deadline=None)
def test_who_shares_a_password_convinces_the_other(
    mechanism: ScramMechanism, username: str, password: str, nonce: str, server_nonce: str, salt: bytes
) -> None:
    server = ScramServer(password, mechanism, salt, MIN_ITERATIONS, server_nonce)
    client = ScramClient(mechanism, username, Secret(password), nonce)
    first = client.respond(b"") or b""
    assert first.count(b",") == 3
    proof = client.respond(server.first(first))
    assert client.respond(server.final(proof or b"")) is None
    assert client.is_complete


@given(MECHANISMS, TEXTS, TEXTS, NONCES)
@settings(max_examples=8, deadline=None)
def test_who_does_not_is_found_out_by_both(mechanism: ScramMechanism, password: str, other: str, nonce: str) -> None:
    if password == other:
        other += "x"
    server = ScramServer(password, mechanism)
    client = ScramClient(mechanism, "user", Secret(other), nonce)
    proof = client.respond(server.first(client.respond(b"") or b"")) or b""
    with pytest.raises(WrongProofError):
        server.final(proof)
    honest = ScramClient(mechanism, "user", Secret(password), nonce)
    signature = server.final(honest.respond(server.first(honest.respond(b"") or b"")) or b"")
    with pytest.raises(ScramError, match="signature"):
        client.respond(signature)
    assert not client.is_complete


PIECES = st.sampled_from([b"r=n", b"s=AAAA", b"i=4096", b"v=AAAA", b"e=x", b"m=y", b"x=z", b"", b"=", b"r=", b"i=9"])
HOSTILE = st.binary(max_size=60) | st.lists(PIECES, max_size=6).map(b",".join)


@given(st.lists(HOSTILE, max_size=4))
@settings(max_examples=100, deadline=None)
def test_whatever_a_server_says_the_client_is_not_convinced(messages: list[bytes]) -> None:
    client = ScramClient(SCRAM_SHA_256, "user", Secret("pencil"), "n")
    client.respond(b"")
    with contextlib.suppress(ScramError):
        for message in messages:
            client.respond(message)
    assert not client.is_complete


@given(st.text(max_size=80))
def test_any_text_is_a_login_entry_or_reported_not_to_be(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_jaas(text)


@given(TEXTS, TEXTS)
def test_quoted_values_of_a_login_entry_come_out_as_they_went_in(username: str, password: str) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    entry = parse_jaas(f"Module required username={quoted(username)} password={quoted(password)};")
    assert entry.options == {"username": username, "password": password}
