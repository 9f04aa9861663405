"""The connections that nodes open themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from crabka.embedded.edge.own_connections import OwnConnections


class Transport(asyncio.Transport):
    def __init__(self, address: tuple[Any, ...] | None) -> None:
        super().__init__({"sockname": address})
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed


def test_a_connection_is_own_as_long_as_it_is_open() -> None:
    own = OwnConnections()
    first, second, gone = Transport(("127.0.0.1", 1)), Transport(("::1", 2, 0, 0)), Transport(None)
    for each in (first, second, gone):
        own.add(each)
    assert own.has("127.0.0.1", 1)
    assert own.has("::1", 2)
    assert not own.has("127.0.0.1", 2)
    first.is_closed = True
    assert not own.has("127.0.0.1", 1)
    del second, each
    assert not own.has("::1", 2)


def test_closed_ones_are_forgotten() -> None:
    own = OwnConnections()
    kept = [Transport(("h", port)) for port in range(40)]
    for each in kept:
        own.add(each)
    for port in range(1_000, 2_000):
        own.add(Transport(("h", port)))
    assert len(own) <= 128
    assert all(own.has("h", port) for port in range(40))
