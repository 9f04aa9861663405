"""Counters that hot paths keep: plain integers, read when somebody asks for them."""

from __future__ import annotations

_API_KEY_LIMIT = 128


class NodeMetrics:
    """What a node counts."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        # By API key: indexing a list is cheaper than a dict on the way of every request.
        self.requests = [0] * _API_KEY_LIMIT
