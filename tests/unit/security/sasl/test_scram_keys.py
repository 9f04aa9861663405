"""Keys of SCRAM: the example of RFC 7677, and the encoding of names."""

from __future__ import annotations

import pytest

from crabka.security.sasl.scram_keys import (
    SCRAM_SHA_256,
    decode_base64,
    decode_sasl_name,
    encode_sasl_name,
    exclusive_or,
    salted_password,
    stored_keys,
)
from crabka.security.secret import Secret

SALT = decode_base64("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_stored_keys_verify_the_example_of_rfc_7677() -> None:
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    keys = stored_keys(SCRAM_SHA_256, salted_password(SCRAM_SHA_256, Secret("pencil"), SALT, 4096), SALT, 4096)
    proof = decode_base64("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = exclusive_or(proof, SCRAM_SHA_256.hmac(keys.stored_key, said))
    assert SCRAM_SHA_256.hash(client_key) == keys.stored_key
    assert SCRAM_SHA_256.hmac(keys.server_key, said) == decode_base64("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_stored_keys_show_no_key() -> None:
    keys = stored_keys(SCRAM_SHA_256, b"salted", b"salt", 4096)
    assert repr(keys) == "StoredScramKeys(iterations=4096, [hidden])"


@pytest.mark.parametrize("name", ["user", "a,b", "a=b", "=2C", "=3D,=", "Ünï"])
def test_a_name_survives_its_encoding(name: str) -> None:
    encoded = encode_sasl_name(name)
    assert "," not in encoded
    assert decode_sasl_name(encoded) == name


@pytest.mark.parametrize("text", ["a=b", "a,b", "=", "=3d", "==3D3D"])
def test_a_name_that_is_not_encoded_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not encoded"):
        decode_sasl_name(text)


@pytest.mark.parametrize("text", ["A", "A===", "AA AA", "$$$$", "ä"])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_base64(text)
