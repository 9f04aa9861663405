"""Topics in a consumer's subscription: the part of the embedded consumer protocol that the broker reads.

version int16 | topic count int32 | (length int16 | name)* | user data and more
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception class
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics of the subscriptions; None if one is not of the consumer protocol."""
    topics: set[str] = set()
    for subscription in subscriptions:
        named = _topics_of(subscription)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str] | None:
    try:
        version, count = _HEAD.unpack_from(subscription)
        position = _HEAD.size
        topics: list[str] = []
        # A wrong count ends at the end of the bytes.
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(subscription, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(subscription):
                return None
            topics.append(subscription[position : position + length].decode())
            position += length
    except (StructError, UnicodeDecodeError):
        return None
    return topics if version >= 0 else None
