"""Options that name whom a quota is about, and texts of quotas."""

from __future__ import annotations

import pytest

from crabka.cli.quotas.entities import EntityOptions, check_new_user, entity_text, parse_quotas
from crabka.errors import ConfigError


def test_options_name_an_entity() -> None:
    assert EntityOptions(user="alice", client_id_default=True).named_entity() == {"user": "alice", "client-id": None}
    assert EntityOptions(ip="::1").named_entity() == {"ip": "::1"}
    assert EntityOptions(ip_default=True).named_entity() == {"ip": None}
    assert EntityOptions().entity() == {}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (EntityOptions(), "name whom it is about"),
        (EntityOptions(user="a", user_default=True), "--user and --user-default exclude each other"),
        (EntityOptions(client_id=""), "--client-id: the name is empty; --client-id-default"),
        (EntityOptions(ip="10.0.0.7", user="a"), "--ip goes with no user and no client id"),
        (EntityOptions(ip_default=True, client_id_default=True), "--ip goes with no user and no client id"),
        (EntityOptions(ip="home"), "--ip home: not an address"),
    ],
)
def test_other_options_are_refused(options: EntityOptions, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        options.named_entity()


def test_a_principal_is_no_name_of_a_new_user() -> None:
    check_new_user({"user": "alice", "client-id": "User:x"})
    check_new_user({"user": None})
    with pytest.raises(ConfigError, match="--user User:a: write a"):
        check_new_user({"user": "User:a"})


def test_an_entity_reads_user_first() -> None:
    assert entity_text({"client-id": "app", "user": None}) == "default user, client-id app"
    assert entity_text({"newer": "x", "ip": "::1"}) == "ip ::1, newer x"


def test_values_have_units() -> None:
    texts = ["producer_byte_rate=10MB", "consumer_byte_rate=1.5MiB/s", "request_percentage=12.5%"]
    assert parse_quotas([*texts, "controller_mutation_rate=0.5"], {"user": "a"}) == {
        "producer_byte_rate": 10_000_000.0,
        "consumer_byte_rate": 1_572_864.0,
        "request_percentage": 12.5,
        "controller_mutation_rate": 0.5,
    }
    assert parse_quotas(["connection_creation_rate=5"], {"ip": None}) == {"connection_creation_rate": 5.0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("producer_byte_rate", "not of the form KEY=VALUE"),
        ("producer_byte_rate=", "not of the form KEY=VALUE"),
        ("rate=1", "rate: not a quota of user a; there are producer_byte_rate"),
        ("connection_creation_rate=1", "connection_creation_rate: not a quota of user a"),
        ("producer_byte_rate=10XB", "producer_byte_rate=10XB: not a number above 0, such as 10MB"),
        ("producer_byte_rate=0", "not a number above 0"),
        ("producer_byte_rate=-5", "not a number above 0"),
        ("request_percentage=nan", "request_percentage=nan: not a number above 0, such as 50"),
        ("request_percentage=inf", "not a number above 0"),
        ("request_percentage=1e400", "not a number above 0"),
    ],
)
def test_other_values_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_quotas([text], {"user": "a"})


def test_a_quota_is_given_once() -> None:
    with pytest.raises(ConfigError, match="request_percentage is given twice"):
        parse_quotas(["request_percentage=1", "request_percentage=2"], {"user": "a"})
