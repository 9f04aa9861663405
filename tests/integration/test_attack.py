"""Hostile and careless peers: mutated frames, thousands of idle connections, readers that do not read.

The node must live, give its memory back and serve a good client right after.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.foreign import CLIENTS, Sent
from tests.support.clients.target import target_is_jvm, target_node
from tests.support.faults.mutations import mutated_frames
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

MEBIBYTE = 1 << 20
FRAMES_PER_CONNECTION = 5
BASE_MS = 1_700_000_000_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that has the topics that recorded requests speak of and creates no others."""
    with target_node(tmp_path / "node", {"auto.create.topics.enable": "false"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        settings = {"retention.ms": "-1", "max.message.bytes": "10485760"}
        for future in admin.create_topics(
            [NewTopic(name, 2, 1, config=settings) for name in ("w", "j", "good")]
        ).values():
            future.result(120)
        yield running


def _resident_bytes(node: NodeProcess) -> int:
    return int(psutil.Process(node.pid).memory_info().rss)


def _good_client_works(node: NodeProcess, expected_offset: int = 0) -> None:
    rows = [Sent(b"k", b"v%d" % number, (), BASE_MS) for number in range(10)]
    offsets = CLIENTS["confluent-kafka"].produce(node.bootstrap_servers, "good", rows, "none")
    assert offsets == list(range(expected_offset, expected_offset + 10))
    found = CLIENTS["confluent-kafka"].consume(node.bootstrap_servers, "good", 10, expected_offset)
    assert [read.row for read in found] == rows


def _connect(node: NodeProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), timeout=120)


def _send_and_drain(node: NodeProcess, frames: list[bytes]) -> None:
    """Send the frames on one connection, say that no more will come and read until the node hangs up."""
    with _connect(node) as connection, contextlib.suppress(OSError):
        connection.settimeout(5)
        connection.sendall(b"".join(frames))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


def _attack(node: NodeProcess, rng: random.Random, count: int) -> None:
    pending: list[bytes] = []
    for frame in mutated_frames(rng, count):
        pending.append(frame)
        if len(pending) == FRAMES_PER_CONNECTION:
            _send_and_drain(node, pending)
            pending = []
    _send_and_drain(node, pending)


def test_mutated_frames_leave_node_memory_and_clients_well(node: NodeProcess, rng: random.Random) -> None:
    _good_client_works(node)
    count = scaled(3_000, 200_000)
    _attack(node, rng, count // 10)
    level = _resident_bytes(node)
    _attack(node, rng, count - count // 10)
    assert node.is_alive(), node.last_output()
    _good_client_works(node, 10)
    allowed = level + level // 4 + 32 * MEBIBYTE
    wait_until(lambda: _resident_bytes(node) < allowed, f"memory is back below {allowed // MEBIBYTE} MiB")


def test_two_thousand_idle_connections_disturb_no_client(node: NodeProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        _good_client_works(node)
        with contextlib.ExitStack() as stack:
            for _ in range(2_000):
                stack.enter_context(_connect(node))
            wait_until(lambda: _held_count(node) >= 2_000, "all are accepted")
            _good_client_works(node, 10)
        # Its files do not count: those of the offsets topic, which the group of a consumer brings about, may come late.
        wait_until(lambda: _held_count(node) < 50, "all are closed")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    _good_client_works(node, 20)


def _held_count(node: NodeProcess) -> int:
    """Count the connections that the node holds, also those whose other side is gone."""
    connections = psutil.Process(node.pid).net_connections("tcp")
    return sum(connection.status != psutil.CONN_LISTEN for connection in connections)


def _fetch_request(topic: str, correlation_id: int, max_bytes: int) -> bytes:
    """Fetch v4 of partition 0 from its start."""
    name = topic.encode()
    header = struct.pack(">hhih", 1, 4, correlation_id, -1)
    body = struct.pack(">iiiib", -1, 100, 1, max_bytes, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return struct.pack(">i", len(header + body)) + header + body


def test_reader_that_does_not_read_costs_little(node: NodeProcess) -> None:
    rows = [Sent(None, bytes(4_000_000), (), BASE_MS) for _ in range(5)]
    CLIENTS["confluent-kafka"].produce(node.bootstrap_servers, "w", rows, "none")
    level = _resident_bytes(node)
    with _connect(node) as slow:
        for correlation_id in range(100):
            slow.sendall(_fetch_request("w", correlation_id, 50_000_000))
        _good_client_works(node)
        assert _resident_bytes(node) < level + 200 * MEBIBYTE
        (size,) = struct.unpack(">i", slow.recv(4, socket.MSG_WAITALL))
        assert size > 20_000_000
    _good_client_works(node, 10)


@pytest.mark.skipif(target_is_jvm(), reason="Kafka sets the claimed memory aside")
def test_frame_that_never_ends_is_held_without_its_claimed_memory(node: NodeProcess) -> None:
    level = _resident_bytes(node)
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(_connect(node))
            connection.sendall(struct.pack(">i", 100_000_000) + b"\x00\x00\x00\x09")
        _good_client_works(node)
        assert _resident_bytes(node) < level + 200 * MEBIBYTE
