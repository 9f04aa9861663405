"""Legal topic names and names that would share a metric."""

from __future__ import annotations

import pytest

from crabka.errors import OperationError
from crabka.metadata.topic_names import (
    MAX_TOPIC_NAME_LENGTH,
    collision_key,
    find_collision,
    is_legal_topic_name,
    require_legal_topic_name,
)
from crabka.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a" * MAX_TOPIC_NAME_LENGTH, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert is_legal_topic_name(name)
    require_legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * (MAX_TOPIC_NAME_LENGTH + 1), "a/b", "ä", "a\n", " a"])
def test_illegal_names(name: str) -> None:
    assert not is_legal_topic_name(name)
    with pytest.raises(OperationError, match="Topic name is invalid") as caught:
        require_legal_topic_name(name)
    assert caught.value.error_code is ErrorCode.invalid_topic_exception


def test_a_long_name_is_quoted() -> None:
    with pytest.raises(OperationError, match="is longer than the max allowed length 249"):
        require_legal_topic_name("x" * 250)


def test_collisions() -> None:
    assert collision_key("a.b") == "a_b"
    assert find_collision("a.b", ["x", "a_b"]) == "a_b"
    assert find_collision("a.b", ["a.b"]) is None
    assert find_collision("ab", ["a.b", "a_b"]) is None
