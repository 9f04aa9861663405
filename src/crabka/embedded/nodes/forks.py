"""Lets go of what a forked process has inherited from the nodes of its parent.

A fork shares files and sockets with its parent. Without this a node that was stopped would stay locked and its port
taken, and its clients would never see the end of their connections, until the fork has ended too.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from weakref import WeakSet

_DESCRIPTORS = "/dev/fd"
_OWNERS: WeakSet[Forgetter] = WeakSet()


class Forgetter:
    """Something that a fork must let go of."""

    def __init__(self, forget: Callable[[], None]) -> None:
        """`forget` is called in forks, where it must take no lock: the thread that holds it does not exist there."""
        self.forget = forget
        _OWNERS.add(self)


def close_sockets_of(ports: set[int]) -> None:
    """Close the sockets that are bound to ports, in a fork: the objects that hold them stay and find another file."""
    for name in os.listdir(_DESCRIPTORS):
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode) or _port_of(descriptor) not in ports:
                continue
        except OSError:
            continue
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)


def _port_of(descriptor: int) -> int | None:
    inherited = socket.socket(fileno=descriptor)
    try:
        address = inherited.getsockname()
    finally:
        inherited.detach()
    return address[1] if isinstance(address, tuple) else None


def _forget_all() -> None:
    for owner in list(_OWNERS):
        owner.forget()


os.register_at_fork(after_in_child=_forget_all)
