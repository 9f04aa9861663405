"""DescribeClientQuotas over the wire: filters."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of
from tests.support.quorum.quotas import alter

EXACT, DEFAULT, ANY = 0, 1, 2


def ask(node: SimNode, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    rows = [row("ComponentData", entity_type=kind, match_type=match, match=name) for kind, match, name in components]
    return node.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=rows, strict=strict)


@pytest.fixture
def stored(node: SimNode) -> SimNode:
    alter(node, {"user": "a"}, {"producer_byte_rate": 1.0})
    alter(node, {"user": None}, {"producer_byte_rate": 2.0})
    alter(node, {"user": "a", "client-id": "c"}, {"producer_byte_rate": 3.0, "consumer_byte_rate": 4.0})
    return node


def rates(answer: Any) -> list[float]:
    assert answer.error_code is ErrorCode.none
    return sorted(value.value for entry in answer.entries for value in entry.values)


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLIENT_QUOTAS))
def test_every_version_shows_all_without_a_filter(stored: SimNode, version: int) -> None:
    assert rates(ask(stored, version=version)) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("match", "name", "strict", "expected"),
    [
        (EXACT, "a", False, [1.0, 3.0, 4.0]),
        (EXACT, "a", True, [1.0]),
        (DEFAULT, None, False, [2.0]),
        (ANY, None, True, [1.0, 2.0]),
        (EXACT, "b", False, []),
    ],
)
def test_filters(stored: SimNode, match: int, name: str | None, strict: bool, expected: list[float]) -> None:
    assert rates(ask(stored, ("user", match, name), strict=strict)) == expected


@pytest.mark.parametrize(
    "components",
    [[("user", ANY, None), ("user", ANY, None)], [("planet", ANY, None)], [("user", 9, None)]],
)
def test_a_bad_filter_is_refused(node: SimNode, components: list[tuple[str, int, str | None]]) -> None:
    answer = ask(node, *components)
    assert answer.error_code is ErrorCode.invalid_request
    assert answer.entries is None
