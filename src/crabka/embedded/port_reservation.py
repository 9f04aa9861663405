"""A port that stays ours while the node that listens on it is down.

A socket that is bound and does not listen keeps the port from being given to an outgoing connection or to others who
ask for any free port. Linux lets the node listen on it at the same time, since both allow the address to be reused;
elsewhere the port is only chosen.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from typing import Any, Final

from crabka.errors import ConfigError

_MAX_PORT: Final = 65_535
_CAN_SHARE: Final = sys.platform == "linux"


class PortReservation:
    """A port of an address of this machine."""

    def __init__(self, host: str, port: int = 0) -> None:
        """Reserve a port, 0 for any that is free. Raises ConfigError."""
        check_port(port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        reserved = socket.socket(family, socket.SOCK_STREAM)
        try:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind((host, port))
        except OSError as error:
            reserved.close()
            what = f"port {port} of {host}" if port else f"the address {host}"
            raise ConfigError(f"{what} cannot be used: {error.strerror}") from error
        self.port = int(reserved.getsockname()[1])
        # The descriptor goes with this object, also if it is forgotten.
        self._close = weakref.finalize(self, os.close, reserved.detach())
        if not _CAN_SHARE:
            self._close()

    def release(self) -> None:
        """Give the port back. Releasing it twice is allowed."""
        self._close()


def check_port(port: Any) -> None:
    """Raise ConfigError unless a port may be listened on."""
    if not isinstance(port, int) or not 0 <= port <= _MAX_PORT:
        raise ConfigError(f"a port is a number from 0 to {_MAX_PORT}, not {port!r}")
