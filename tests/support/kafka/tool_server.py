"""Kafka's tools in a Java that stays: most of them live a second, and would need another one to start.

One server per process of tests, started by the first tool that it can run and ended with the process. Only tools that
read no standard input, end by themselves and keep nothing in static fields are run there.
"""

from __future__ import annotations

import atexit
import functools
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.support.nodes.process import accepts_connections, wait_until
from tests.support.wire.ports import free_port

SOURCE = Path(__file__).parents[2] / "interop" / "java" / "ToolServer.java"
SHARED_TOOLS = frozenset(
    [
        "kafka.admin.ConfigCommand",
        "org.apache.kafka.tools.ClusterTool",
        "org.apache.kafka.tools.DeleteRecordsCommand",
        "org.apache.kafka.tools.FeatureCommand",
        "org.apache.kafka.tools.GetOffsetShell",
        "org.apache.kafka.tools.LeaderElectionCommand",
        "org.apache.kafka.tools.LogDirsCommand",
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "org.apache.kafka.tools.TopicCommand",
        "org.apache.kafka.tools.TransactionsCommand",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ]
)
_INT = struct.Struct(">i")
_START_TIMEOUT_S = 120.0


def run_shared(tool: str, arguments: Sequence[str], java: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
    """Run a tool to its end; return its exit code, output and errors. Raises TimeoutError; the server is gone then.

    `java` is the command that starts the server, without the class.
    """
    port, process = _server(tuple(java))
    words = [_string(tool), _INT.pack(len(arguments)), *map(_string, arguments)]
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection,
            connection.makefile("rb") as answer,
        ):
            connection.sendall(b"".join(words))
            return _int(answer), _text(answer), _text(answer)
    except OSError:
        _server.cache_clear()
        process.kill()
        process.wait()
        raise


@functools.cache
def _server(java: tuple[str, ...]) -> tuple[int, subprocess.Popen[bytes]]:
    """Start the server; its output goes to a file that is named if it does not start."""
    port = free_port()
    with tempfile.TemporaryFile() as output:
        command = [*java, str(SOURCE), str(port), str(os.getpid())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        atexit.register(_end, process)
        wait_until(
            lambda: accepts_connections(port) or process.poll() is not None,
            "the server of tools answers",
            timeout_s=_START_TIMEOUT_S,
        )
        if process.poll() is not None:
            output.seek(0)
            raise RuntimeError(f"the server of tools ended: {output.read().decode()}")
    return port, process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def _int(answer: BinaryIO) -> int:
    number: int = _INT.unpack(_read(answer, _INT.size))[0]
    return number


def _text(answer: BinaryIO) -> str:
    return _read(answer, _int(answer)).decode()


def _read(answer: BinaryIO, size: int) -> bytes:
    data = answer.read(size)
    if len(data) < size:
        raise ConnectionResetError("the server of tools is gone")
    return data
