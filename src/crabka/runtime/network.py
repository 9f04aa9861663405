"""The network port on the event loop's own sockets, uvloop's or asyncio's."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING

from crabka.runtime.acceptor import TLS_SHUTDOWN_S, Acceptor
from crabka.runtime.socket_writer import SocketWriter, open_socket_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import Threads, TlsAcceptance

# Connections that the kernel completes before the loop accepts them: room for all clients reconnecting at once.
LISTEN_BACKLOG = 1024

# An address of a host name that this machine cannot use, such as ::1 where IPv6 is off.
_UNUSABLE_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class TcpListener:
    """The listening sockets of one host and port: one per address family."""

    def __init__(self, acceptors: list[Acceptor], host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._acceptors = acceptors

    def close(self) -> None:
        """Stop accepting; connections that exist live on."""
        for acceptor in self._acceptors:
            acceptor.close()


class AsyncioNetwork:
    """TCP over the running event loop."""

    __slots__ = ("_threads",)

    def __init__(self, threads: Threads | None = None) -> None:
        """Threads read what is to be sent from a file and no longer in memory; without them the loop waits."""
        self._threads = threads

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        tls: TlsAcceptance | None = None,
    ) -> TcpListener:
        """Accept on every address of `host`; an empty one means all interfaces, IPv4 and IPv6.

        Port 0 picks one free port for all addresses. Raises OSError.
        """
        sockets = [_wildcard_socket(port)] if not host else _bound_sockets(await _resolve(host, port), port)
        acceptors: list[Acceptor] = []
        try:
            for listening in sockets:
                listening.listen(LISTEN_BACKLOG)
                acceptors.append(Acceptor(listening, factory, tls))
        except OSError:
            for listening in sockets:
                listening.close()
            raise
        bound_port = int(sockets[0].getsockname()[1])
        for acceptor in acceptors:
            acceptor.start()
        return TcpListener(acceptors, host, bound_port)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect to the first address of `host` that answers.

        Raises OSError; ConnectionRefusedError only if every address that this machine can use refused, and ssl.SSLError
        as soon as one answers without being fit to be trusted.
        """
        loop = asyncio.get_running_loop()
        failures: list[OSError] = []
        # One address at a time: asyncio would hide ConnectionRefusedError in an OSError of several addresses.
        for _, address in await _resolve(host, port):
            try:
                if tls is None:
                    return await loop.create_connection(factory, address, port)
                return await loop.create_connection(
                    factory, address, port, ssl=tls, server_hostname=host, ssl_shutdown_timeout=TLS_SHUTDOWN_S
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failures.append(error)
        raise _telling_failure(failures)

    def direct_writer(self, transport: asyncio.BaseTransport) -> SocketWriter | None:
        """Return a writer to the socket of a transport, None if that encrypts."""
        return open_socket_writer(transport, self._threads)


async def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a host in the order of preference. Raises socket.gaierror."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in infos))
    return [(socket.AF_INET6 if version == 6 else socket.AF_INET, host)]


def _telling_failure(failures: list[OSError]) -> OSError:
    """Return the most specific error: a refusal by every address means that no process listens."""
    usable = [error for error in failures if error.errno not in _UNUSABLE_ADDRESS] or failures
    return next((error for error in usable if not isinstance(error, ConnectionRefusedError)), usable[-1])


def _wildcard_socket(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return _listening_socket("", port, socket.AF_INET6, dualstack_ipv6=True)
    return _listening_socket("", port, socket.AF_INET)


def _listening_socket(
    address: str, port: int, family: socket.AddressFamily, *, dualstack_ipv6: bool = False
) -> socket.socket:
    listening = socket.create_server((address, port), family=family, dualstack_ipv6=dualstack_ipv6)
    # Accepted sockets inherit it. The loops set it for connections they open, but asyncio not for those it accepts
    # from a socket that it did not make itself.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _bound_sockets(addresses: list[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            try:
                sockets.append(_listening_socket(address, port, family))
            except OSError as error:
                if error.errno not in _UNUSABLE_ADDRESS or (not sockets and address == addresses[-1][1]):
                    raise
            else:
                port = sockets[0].getsockname()[1]
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def own_host_name() -> str:
    """Return the name by which others reach this machine."""
    return socket.getfqdn()
