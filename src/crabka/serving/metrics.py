"""Counters of hot paths: plain integers, read when metrics are requested."""

from __future__ import annotations

_API_KEY_LIMIT = 128


class NodeMetrics:
    """The counters of a node."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        # By API key: indexing a list is cheaper than a dict lookup per request.
        self.requests = [0] * _API_KEY_LIMIT
