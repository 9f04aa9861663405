"""Positions of groups, gathered from a node."""

from __future__ import annotations

import time

from crabka.cli.doctor.checks.groups import GroupFacts, GroupPosition
from crabka.cli.doctor.gathering.groups import _retention_ms, gather_groups
from crabka.clients.admin.admin_types import ConfigValue
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.ids import TopicPartition
from tests.unit.cli.conftest import RunCommand
from tests.unit.cli.doctor.conftest import Gather

LONG_MS = 400 * 24 * 3_600_000


def positions(facts: GroupFacts, group: str) -> list[GroupPosition]:
    return [each for each in facts.positions if each.group == group]


def test_a_position_is_seen_with_its_log_and_its_retention(
    gathered: Gather[GroupFacts], on_broker: RunCommand, broker: str
) -> None:
    on_broker("topics", "create", "positioned", "-p", "2", "-c", "retention.ms=400d")
    on_broker("records", "produce", "positioned:1", "a", "b", "c", "d")
    with SyncAdmin(broker) as admin:
        admin.delete_records({TopicPartition("positioned", 1): 2})
    on_broker("groups", "reset", "positioned", "--topic", "positioned:1", "--to-offset", "3", "--execute")
    (found,) = positions(gathered(gather_groups), "positioned")
    assert found.partition == TopicPartition("positioned", 1)
    assert (found.committed, found.log_start, found.log_end, found.has_members) == (3, 2, 4, False)
    # All records are new.
    assert (found.expiring_end, found.retention_ms) == (2, LONG_MS)


def test_unread_records_that_are_all_old_are_about_to_go(
    gathered: Gather[GroupFacts], on_broker: RunCommand, broker: str
) -> None:
    on_broker("topics", "create", "old", "-c", "retention.ms=400d")
    long_ago = time.time_ns() // 1_000_000 - round(LONG_MS * 0.9)
    with SyncProducer(broker) as producer:
        producer.send("old", b"a", timestamp=long_ago)
        producer.send("old", b"b", timestamp=long_ago).result(60)
    on_broker("groups", "reset", "old", "--topic", "old", "--to-earliest", "--execute")
    (found,) = positions(gathered(gather_groups), "old")
    assert (found.committed, found.log_end, found.expiring_end) == (0, 2, 2)


def test_groups_that_have_read_all_are_not_asked_for_retention(
    gathered: Gather[GroupFacts], on_broker: RunCommand
) -> None:
    on_broker("topics", "create", "read")
    on_broker("records", "produce", "read", "a")
    on_broker("groups", "reset", "read", "--topic", "read", "--to-latest", "--execute")
    (found,) = positions(gathered(gather_groups), "read")
    assert (found.lag, found.expiring_end, found.retention_ms) == (0, None, -1)


def test_retention_by_age_needs_its_policy() -> None:
    def configs(policy: str, retention: str) -> dict[str, ConfigValue]:
        given = {"cleanup.policy": policy, "retention.ms": retention}
        return {name: ConfigValue(name, text, 5, False, False, 0, None, ()) for name, text in given.items()}

    assert _retention_ms(configs("delete", "5")) == _retention_ms(configs("compact,delete", "5")) == 5
    assert _retention_ms(configs("compact", "5")) == _retention_ms(configs("delete", "-1")) == _retention_ms({}) == -1
