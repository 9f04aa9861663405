"""Recorded sessions of real clients, played again: every answer has the shape of Apache Kafka's answer.

Requests go out as the recorded bytes; only topic ids and fetch session ids, which a node chooses itself, are replaced.
Left out are the APIs of groups, transactions and security, and reads that would show transactional records.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from tests.support.target import target_node
from tests.support.wire_shapes import (
    Exchange,
    Shape,
    decode_response,
    recorded_exchanges,
    shape_of,
    topic_ids,
    with_session_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.interop

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22
DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS = 32, 35
# Metadata, offsets, topics, configs, log dirs, quotas, cluster: what a node without groups and transactions serves.
SERVED = {PRODUCE, FETCH, 2, METADATA, API_VERSIONS, 19, 20, 21, INIT_PRODUCER_ID, 23, 32, 33, 35, 37, 44, 48, 49, 50}
SERVED |= {57, 60, 61, 74, 75}
SESSIONS = ("librdkafka", "java_client", "java_cli")

COORDINATOR_LOAD_IN_PROGRESS = 14
BROKER = 4


def _set_up_differently(exchange: Exchange) -> tuple[str, ...]:
    """Leaves that may differ because the recorded node differed in set-up or history, not in behaviour."""
    request = exchange.decoded_request
    if exchange.api_key == API_VERSIONS:
        # Which APIs and features exist is checked against golden/api_versions.json elsewhere.
        return (".api_keys[]", ".supported_features[]", ".finalized_features[]")
    if exchange.api_key == METADATA and request.get("topics") is None:
        return (".topics[]",)  # All topics: the recorded node had internal ones.
    if exchange.api_key == DESCRIBE_LOG_DIRS:
        return (".results[].topics[]",)  # The recorded node had internal topics and two log dirs.
    if exchange.api_key == DESCRIBE_CONFIGS and f"'resourceType': {BROKER}" in str(request):
        return (".results[].configs[]",)  # The recorded node was set up with tiered storage and an authorizer.
    return ()


class Player:
    """Plays a session against a node, one socket per recorded connection."""

    def __init__(self, node: NodeProcess) -> None:
        """Nothing is connected before its first request."""
        self._port = node.port
        self._sockets: dict[int, socket.socket] = {}
        self._topic_ids: dict[bytes, bytes] = {}
        self._session_ids: dict[int, int] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._sockets.values():
            connection.close()

    def play(self, exchange: Exchange) -> tuple[object, object]:
        """Send the request; returns the recorded and the received response, decoded."""
        connection = self._sockets.get(exchange.connection)
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=20)
            self._sockets[exchange.connection] = connection
        recorded = decode_response(exchange.api_key, exchange.api_version, exchange.response)
        received = self._ask(connection, exchange)
        while exchange.api_key == INIT_PRODUCER_ID and _is_loading(received):
            received = self._ask(connection, exchange)  # As clients do: a young node first fetches a block of ids.
        self._learn(recorded, received)
        return recorded, received

    def _ask(self, connection: socket.socket, exchange: Exchange) -> object:
        request = self._translated(exchange)
        connection.sendall(struct.pack(">i", len(request)) + request)
        frame = _receive(connection)
        assert frame[:4] == exchange.response[:4], "the correlation id differs"
        return decode_response(exchange.api_key, exchange.api_version, frame)

    def _translated(self, exchange: Exchange) -> bytes:
        request = exchange.request
        for theirs, ours in self._topic_ids.items():
            request = request.replace(theirs, ours)
        session_id = exchange.decoded_request.get("sessionId", 0)
        if exchange.api_key == FETCH and isinstance(session_id, int) and session_id > 0:
            request = with_session_id(request, self._session_ids[session_id])
        return request

    def _learn(self, recorded: object, received: object) -> None:
        ours = topic_ids(received)
        self._topic_ids |= {theirs: ours[name] for name, theirs in topic_ids(recorded).items() if name in ours}
        session_id = getattr(recorded, "session_id", 0)
        if session_id > 0:
            self._session_ids[session_id] = getattr(received, "session_id", 0)


def _is_loading(response: object) -> bool:
    return getattr(getattr(response, "error_code", None), "value", 0) == COORDINATOR_LOAD_IN_PROGRESS


def _receive(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = connection.recv(1 << 20)
        assert more, "the node closed the connection instead of answering"
        data += more
    return data[4:]


def _playable(session: str) -> Iterator[Exchange]:
    """The part of a session that does not need groups or transactions."""
    transactional = False
    for exchange in recorded_exchanges(session):
        if exchange.decoded_request.get("transactionalId"):
            transactional = True
        elif exchange.api_key in SERVED and not (transactional and exchange.api_key == FETCH):
            yield exchange


def _comparable(response: object, exchange: Exchange) -> Shape:
    ignored = _set_up_differently(exchange)
    return frozenset(leaf for leaf in shape_of(response) if not leaf[0].startswith(ignored))


@pytest.fixture
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """A player on a fresh node whose id is the recorded one."""
    with target_node(tmp_path_factory.mktemp("wire"), {"node.id": "1"}) as node:
        made = Player(node)
        yield made
        made.close()


@pytest.mark.parametrize("session", SESSIONS)
def test_replayed_session_gets_answers_of_the_recorded_shape(player: Player, session: str) -> None:
    differences = []
    count = 0
    for exchange in _playable(session):
        recorded, received = player.play(exchange)
        theirs = _comparable(recorded, exchange)
        ours = _comparable(received, exchange)
        count += 1
        if theirs != ours:
            differences.append((exchange.label, "missing", sorted(theirs - ours), "extra", sorted(ours - theirs)))
    assert count > 30
    assert differences == []
