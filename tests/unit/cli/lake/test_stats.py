"""`crabka stats` wants topics or a pattern."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import RunCommand


@pytest.mark.parametrize("arguments", [(), ("orders", "--pattern", "o.*")])
def test_topics_are_named_in_one_way(crabka: RunCommand, arguments: tuple[str, ...]) -> None:
    outcome = crabka("stats", *arguments)
    assert outcome.code == 2
    assert "name topics, or a --pattern" in outcome.err
