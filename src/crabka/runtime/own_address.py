"""The name or address that clients are given for a node that listens on all addresses of its machine."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

ANY_HOSTS: Final = {"": socket.AF_UNSPEC, "0.0.0.0": socket.AF_INET, "::": socket.AF_INET6}  # noqa: S104 - names
"""Hosts that stand for all addresses, and the family of those addresses."""
# Reserved for documentation (RFC 5737, RFC 3849): a route to them is the default route. Nothing is sent.
_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK: Final = {socket.AF_INET6: "::1"}


def reachable_host(any_host: str) -> str:
    """Return the name of this machine if it resolves to one of its addresses, else its first address.

    Names that do not serve clients elsewhere: localhost, which every machine has, and a name that resolves to
    another machine, as behind an address translation.
    """
    family = ANY_HOSTS[any_host]
    for name in dict.fromkeys((socket.getfqdn(), socket.gethostname())):
        if not name.startswith("localhost") and _is_own_name(name, family):
            return name
    return _first_address(family)


def _is_own_name(name: str, family: int) -> bool:
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(_is_own_address(each_family, str(address[0])) for each_family, _, _, _, address in found)


def _is_own_address(family: int, address: str) -> bool:
    """Only addresses of this machine can be bound."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return True
    return False


def _first_address(family: int) -> str:
    """Return the address of the default route, or the loopback address of a machine without a network."""
    for each_family, outside in _OUTSIDE:
        if family in (each_family, socket.AF_UNSPEC):
            with contextlib.suppress(OSError), socket.socket(each_family, socket.SOCK_DGRAM) as probe:
                probe.connect((outside, 9))
                return str(probe.getsockname()[0])
    return _LOOPBACK.get(socket.AddressFamily(family), "127.0.0.1")
