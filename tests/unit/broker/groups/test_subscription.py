"""Topics in subscriptions."""

from __future__ import annotations

import pytest

from crabka.broker.groups.subscription import subscribed_topics
from tests.support.coordinators.members import subscription


def test_topics_of_all_members_are_joined() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "ü")]) == frozenset({"a", "b", "ü"})


def test_no_topics_are_no_subscription() -> None:
    assert subscribed_topics([]) == frozenset()


@pytest.mark.parametrize(
    "raw", [b"", b"\0", b"\0\1\0\0\0\1", b"\0\1\x7f\xff\xff\xff\0\1a", b"\0\1\0\0\0\1\0\1\xff", b"\xff\xff\0\0\0\0"]
)
def test_other_bytes_are_no_subscription(raw: bytes) -> None:
    assert subscribed_topics([subscription("a"), raw]) is None
