"""TCP ports for servers that tests start: never the same one twice, and never one that a connection may be given.

A port is chosen here and bound by another process some seconds later. What the kernel gives out for "any port" may be
given out again in between, to a second server or to an outgoing connection; so the ports lie below the range that
kernels use for connections, and every process of a test run walks along a lane of its own.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PORT = 12_000
LAST_PORT = 31_999
LANES = 8
"""How many processes of one test run never meet; `pytest -n` starts at most as many workers."""


class NoPortLeftError(AssertionError):
    """Every port of the lane is taken."""


def lane_of(worker: str) -> int:
    """The lane of a worker of pytest-xdist (`gw0`, `gw1`, …); without workers it is the first."""
    number = re.fullmatch(r"gw(\d+)", worker)
    return int(number[1]) % LANES if number else 0


def lane(number: int, start: int) -> Iterator[int]:
    """All ports of a lane, over and over, from a place that `start` decides: runs beside each other rarely meet."""
    ports = range(FIRST_PORT + number, LAST_PORT + 1, LANES)
    first = start % len(ports)
    return itertools.cycle([*ports[first:], *ports[:first]])


class PortWalk:
    """Gives out the ports of one lane in turn, without those in use."""

    def __init__(self, number: int, start: int) -> None:
        self._ports = lane(number, start)
        self._lock = threading.Lock()

    def take(self) -> int:
        """The next port that can be bound right now."""
        with self._lock:
            for port in itertools.islice(self._ports, (LAST_PORT - FIRST_PORT) // LANES + 1):
                if is_free(port):
                    return port
        raise NoPortLeftError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


def is_free(port: int) -> bool:
    """Whether the port of 127.0.0.1 can be bound."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_WALK = PortWalk(lane_of(os.environ.get("PYTEST_XDIST_WORKER", "")), os.getpid() * 31)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free and was not given out lately."""
    return _WALK.take()
