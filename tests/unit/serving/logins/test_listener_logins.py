"""Users of a listener: those of PLAIN are in its settings, those of SCRAM in the newest metadata."""

from __future__ import annotations

import random

import pytest

from crabka.clients.security.scram import ScramClient
from crabka.metadata.security import ScramImage, ScramKey
from crabka.security.sasl.exchange import SaslRefusedError, ServerExchange
from crabka.security.sasl.listener_rules import ListenerRules
from crabka.security.sasl.scram_credentials import SaltedCredential, scram_record
from crabka.security.sasl.scram_keys import SCRAM_SHA_512, salted_password
from crabka.security.secret import Secret
from crabka.serving.logins.journal import LoginJournal
from crabka.serving.logins.listener_logins import ListenerLogins
from tests.support.wire.net import ManualClock

PASSWORD = Secret("wonder")
RULES = ListenerRules(("PLAIN", "SCRAM-SHA-512"), {"alice": PASSWORD}, {}, 0, 1000)


def image_of(user: str) -> ScramImage:
    salted = salted_password(SCRAM_SHA_512, PASSWORD, b"salt", 4096)
    credential = SaltedCredential(ScramKey(2, user), 4096, b"salt", salted)
    return ScramImage({credential.key: scram_record(credential)})


def scram_user(exchange: ServerExchange, user: str) -> str | None:
    client = ScramClient(SCRAM_SHA_512, user, PASSWORD, "nonce")
    message = client.respond(b"")
    while message is not None:
        message = client.respond(exchange.respond(message))
    return exchange.user


def test_users_come_from_settings_and_metadata() -> None:
    images = [ScramImage()]
    clock = ManualClock()
    logins = ListenerLogins(RULES, lambda: images[-1], rng=random.Random(1), clock=clock, journal=LoginJournal(clock))
    plain = logins._begin("PLAIN")
    plain.respond(b"\0alice\0wonder")
    assert plain.user == "alice"
    with pytest.raises(SaslRefusedError):
        scram_user(logins._begin("SCRAM-SHA-512"), "carol")
    images.append(image_of("carol"))
    assert scram_user(logins._begin("SCRAM-SHA-512"), "carol") == "carol"
    with pytest.raises(SaslRefusedError):
        scram_user(logins._begin("SCRAM-SHA-512"), "alice")


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    clock = ManualClock()
    logins = ListenerLogins(RULES, ScramImage, rng=random.Random(1), clock=clock, journal=LoginJournal(clock))
    challenges = {logins._begin("SCRAM-SHA-512").respond(b"n,,n=x,r=y").split(b",")[0] for _ in range(10)}
    assert len(challenges) == 10
