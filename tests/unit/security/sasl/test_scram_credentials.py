"""The texts of `--add-scram`, as kafka-storage reads them."""

from __future__ import annotations

import base64

import pytest

from crabka.errors import ConfigError
from crabka.metadata.security import ScramKey
from crabka.security.sasl.scram_credentials import parse_credential, scram_record
from crabka.security.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512, salted_password, stored_keys
from crabka.security.secret import Secret

SALT = b"some salt"
ENCODED_SALT = base64.b64encode(SALT).decode()


@pytest.mark.parametrize(
    ("text", "number", "iterations"),
    [
        ("SCRAM-SHA-256=[name=alice,password=canary]", 1, 4096),
        ("  SCRAM-SHA-512=[name=alice,password=canary]  ", 2, 4096),
        ('SCRAM-SHA-512=[name="alice",iterations=8192,password="canary"]', 2, 8192),
        (f"SCRAM-SHA-512=[salt={ENCODED_SALT},name=alice,password=canary]", 2, 4096),
    ],
)
def test_password(text: str, number: int, iterations: int) -> None:
    credential = parse_credential(text, lambda: SALT)
    assert credential.key == ScramKey(number, "alice")
    mechanism = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}[number]
    salted = salted_password(mechanism, Secret("canary"), SALT, iterations)
    assert (credential.salted_password, credential.salt, credential.iterations) == (salted, SALT, iterations)
    record, keys = scram_record(credential), stored_keys(mechanism, salted, SALT, iterations)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", number, SALT, iterations)
    assert (record.stored_key, record.server_key) == (keys.stored_key, keys.server_key)
    assert repr(salted) not in repr(credential)


def test_salted_password() -> None:
    salted = base64.b64encode(b"salted").decode()
    text = f"SCRAM-SHA-256=[name=alice,salt={ENCODED_SALT},saltedpassword={salted}]"
    assert parse_credential(text, bytes).salted_password == b"salted"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with one of SCRAM-SHA-256=\\["),
        ("PLAIN=[name=alice,password=canary]", "does not begin with one of"),
        ("SCRAM-SHA-256=name=alice,password=canary", "not in square brackets"),
        ("SCRAM-SHA-256=[password=canary]", "name= is missing"),
        ("SCRAM-SHA-256=[name=,password=canary]", "name= is missing"),
        ("SCRAM-SHA-256=[name=alice]", "password= or saltedpassword= is missing"),
        ("SCRAM-SHA-256=[name=alice,password=canary,canary]", "values cannot have commas"),
        ("SCRAM-SHA-256=[name=alice,pasword=canary]", "values cannot have commas"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=AAAA]", "saltedpassword= needs salt="),
        ("SCRAM-SHA-256=[name=alice,salt=can!ary,password=canary]", "salt= is not base64"),
        ("SCRAM-SHA-256=[name=alice,iterations=4095,password=canary]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,iterations=16385,password=canary]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,iterations=many,password=canary]", "from 4096 to 16384"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_credential(text, lambda: SALT)
    assert "canary" not in str(caught.value)
