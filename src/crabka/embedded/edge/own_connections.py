"""The connections that nodes open themselves: to each other, and of the tier's metadata.

They come in on the listeners of clients. A test asks for the requests of its clients, and injects faults for those.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

# Closed ones are forgotten when so many are remembered.
_MOST: Final = 64

Address = tuple[str, int]


class OwnConnections:
    """Open connections by the address that their peer sees. Written on the loops of nodes, read on all of them."""

    def __init__(self) -> None:
        self._opened: dict[Address, weakref.ref[asyncio.BaseTransport]] = {}
        self._limit = _MOST
        self._adding = threading.Lock()

    def add(self, transport: asyncio.BaseTransport) -> None:
        """Remember a connection that a node has just opened."""
        address = transport.get_extra_info("sockname")
        if address is None:
            return
        with self._adding:
            self._opened[address[0], address[1]] = weakref.ref(transport)
            if len(self._opened) > self._limit:
                self._opened = {each: opened for each, opened in self._opened.items() if _is_open(opened)}
                self._limit = max(_MOST, 2 * len(self._opened))

    def has(self, host: str, port: int) -> bool:
        """Return whether a connection from this address is of a node."""
        found = self._opened.get((host, port))
        return found is not None and _is_open(found)

    def __len__(self) -> int:
        return len(self._opened)


def _is_open(opened: weakref.ref[asyncio.BaseTransport]) -> bool:
    transport = opened()
    return transport is not None and not transport.is_closing()
