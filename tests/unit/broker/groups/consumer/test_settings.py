"""Which way groups may move."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.settings import MigrationPolicy


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_a_policy_says_which_way_groups_may_move(policy: str, *, up: bool, down: bool) -> None:
    chosen = MigrationPolicy(policy)
    assert (chosen.allows_upgrade, chosen.allows_downgrade) == (up, down)
