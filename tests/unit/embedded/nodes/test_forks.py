"""Forks of a process with nodes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from crabka.embedded import Broker
from crabka.embedded.nodes.forks import close_sockets_of


def in_fork(work: Callable[[], int]) -> int:
    child = os.fork()
    if not child:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_broker_can_be_restarted_while_a_fork_lives() -> None:
    reader, writer = os.pipe()
    with Broker() as broker:
        broker.produce("t", ["before"])
        with socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])), 60) as client:
            child = os.fork()
            if not child:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            broker.restart()
            assert client.recv(1) == b""
        broker.produce("t", ["after"])
        assert [each.value for each in broker.records("t")] == [b"before", b"after"]
    os.close(writer)
    os.close(reader)
    os.waitpid(child, 0)


def test_only_sockets_of_the_ports_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as other:

        def look() -> int:
            close_sockets_of({ours.getsockname()[1]})
            other.getsockname()
            try:
                ours.getsockname()
            except OSError:
                return 7
            return 1

        assert in_fork(look) == 7
        ours.getsockname()
