from __future__ import annotations

import pytest

from crabka.security.quotas.table import CONNECTION_CREATION_RATE, PRODUCER_BYTE_RATE, Applied, QuotaTable

Entities = dict[tuple[tuple[str, str | None], ...], dict[str, float]]

# In Kafka's order of precedence: the entity, and who shares the quota when `alice` sends as `app`.
LEVELS: list[tuple[tuple[tuple[str, str | None], ...], tuple[str | None, str | None]]] = [
    ((("client-id", "app"), ("user", "alice")), ("alice", "app")),
    ((("client-id", None), ("user", "alice")), ("alice", "app")),
    ((("user", "alice"),), ("alice", None)),
    ((("client-id", "app"), ("user", None)), ("alice", "app")),
    ((("client-id", None), ("user", None)), ("alice", "app")),
    ((("user", None),), ("alice", None)),
    ((("client-id", "app"),), (None, "app")),
    ((("client-id", None),), (None, "app")),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_applies(first: int) -> None:
    quotas = {entity: {PRODUCER_BYTE_RATE: float(place)} for place, (entity, _) in enumerate(LEVELS) if place >= first}
    found = QuotaTable(quotas, PRODUCER_BYTE_RATE).find("alice", "app")
    assert found == Applied(LEVELS[first][1], float(first))


def test_other_users_and_other_keys_are_not_limited() -> None:
    quotas: Entities = {
        (("user", "alice"),): {PRODUCER_BYTE_RATE: 1.0},
        (("user", "bob"),): {"consumer_byte_rate": 1.0},
    }
    table = QuotaTable(quotas, PRODUCER_BYTE_RATE)
    assert table.find("bob", "app") is None
    assert table.find("bob", "app") is None
    assert table
    assert not QuotaTable(quotas, CONNECTION_CREATION_RATE)


def test_a_user_and_a_client_id_of_one_name_are_two() -> None:
    table = QuotaTable({(("user", "x"),): {PRODUCER_BYTE_RATE: 1.0}}, PRODUCER_BYTE_RATE)
    assert table.find("y", "x") is None


def test_very_many_clients_are_found_without_being_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.security.quotas.table._REMEMBERED_CLIENTS", 2)
    table = QuotaTable({(("user", None),): {PRODUCER_BYTE_RATE: 1.0}}, PRODUCER_BYTE_RATE)
    for number in (1, 2, 3, 3):
        assert table.find(str(number), "") == Applied((str(number), None), 1.0)
    assert len(table._found) == 2


def test_an_address_has_its_own_quota_or_that_of_all() -> None:
    quotas: Entities = {
        (("ip", "10.0.0.1"),): {CONNECTION_CREATION_RATE: 5.0},
        (("ip", None),): {CONNECTION_CREATION_RATE: 9.0},
    }
    table = QuotaTable(quotas, CONNECTION_CREATION_RATE)
    assert (table.find_address("10.0.0.1"), table.find_address("10.0.0.2")) == (5.0, 9.0)
