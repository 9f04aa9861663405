"""Which topic names are legal, and which would share a metric name (Kafka's `Topic` class)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_legal_topic_name(name: str) -> bool:
    """Return whether a topic may have this name."""
    return _fault(name) is None


def require_legal_topic_name(name: str) -> None:
    """Raise OperationError (INVALID_TOPIC_EXCEPTION) with Kafka's message if the name is illegal."""
    fault = _fault(name)
    if fault is not None:
        raise OperationError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {fault}")


def collision_key(name: str) -> str:
    """Return the form of a name that must be unique: metrics replace '.' by '_'."""
    return name.replace(".", "_")


def find_collision(name: str, others: Iterable[str]) -> str | None:
    """Return an existing name that differs only in '.' and '_', if there is one."""
    if "." not in name and "_" not in name:
        return None
    key = collision_key(name)
    return next((other for other in others if other != name and collision_key(other) == key), None)


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
