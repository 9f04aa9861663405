"""Recorded sessions of real clients, played again: every answer has the shape of Apache Kafka's answer.

Requests go out as the recorded bytes; only what a node chooses itself is replaced: topic ids, fetch session ids, member
ids. Producer ids lie inside checksums, so the node is made to count up to the recorded ones instead.
Left out are the APIs of security, and reads that would show transactional records, whose markers come when they come.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from crabka.broker.api_table import SERVED_KEYS
from tests.support.clients.target import target_is_jvm, target_node
from tests.support.recorded.wire_shapes import (
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

    from tests.support.nodes.process import NodeProcess

pytestmark = pytest.mark.interop

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22
DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS = 32, 35
# Metadata, offsets, topics, configs, log dirs, quotas, cluster: what a node without groups and transactions serves.
SERVED = {PRODUCE, FETCH, 2, METADATA, API_VERSIONS, 19, 20, 21, INIT_PRODUCER_ID, 23, 32, 33, 35, 37, 44, 48, 49, 50}
SERVED |= {57, 60, 61, 74, 75}
# Groups and transactions, as far as the node serves them.
LIST_GROUPS, END_TXN = 16, 26
TRANSACTION_KEY_TYPE = 1
COORDINATED = {8, 9, 10, 11, 12, 13, 14, 15, LIST_GROUPS, 24, 25, END_TXN, 28, 42, 47, 65, 66, 68, 69}
SERVED |= COORDINATED if target_is_jvm() else COORDINATED & set(SERVED_KEYS)
SESSIONS = ("librdkafka", "java_client", "java_cli")

# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS: ask again.
TRANSIENT = {14, 15, 16, 51}
BROKER = 4
SETTINGS = {"node.id": "1", "group.initial.rebalance.delay.ms": "0"}


def _set_up_differently(exchange: Exchange) -> tuple[str, ...]:
    """Leaves that may differ because the recorded node differed in set-up or history, not in behaviour."""
    request = exchange.decoded_request
    if exchange.api_key == API_VERSIONS:
        # Which APIs and features exist is checked against golden/api_versions.json elsewhere.
        return (".api_keys[]", ".supported_features[]", ".finalized_features[]")
    if exchange.api_key == METADATA and request.get("topics") is None:
        return (".topics[]",)  # All topics: the recorded node had internal ones.
    if exchange.api_key == LIST_GROUPS:
        return (".groups[]",)  # Those of other sessions.
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
        self._member_ids: dict[bytes, bytes] = {}
        self._counts_producers = False

    def close(self) -> None:
        """Close all connections."""
        for connection in self._sockets.values():
            connection.close()

    def play(self, exchange: Exchange) -> tuple[object, object]:
        """Send the request; returns the recorded and the received response, decoded."""
        connection = self._sockets.get(exchange.connection)
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=120)
            self._sockets[exchange.connection] = connection
        recorded = recorded_response(exchange)
        if exchange.api_key == INIT_PRODUCER_ID and not self._counts_producers:
            self._counts_producers = True
            self._count_producers(connection, exchange, before=recorded)
        received = self._ask_until_settled(connection, exchange)
        self._learn(recorded, received)
        return recorded, received

    def _count_producers(self, connection: socket.socket, exchange: Exchange, *, before: object) -> None:
        """Use up producer ids, so that the next one is the one in the recorded response."""
        while _producer_id(self._ask_until_settled(connection, exchange)) < _producer_id(before) - 1:
            pass

    def _ask_until_settled(self, connection: socket.socket, exchange: Exchange) -> object:
        """Ask again as clients do, while a young node loads or a transaction is still being ended."""
        deadline = time.monotonic() + 120
        received = self._ask(connection, exchange)
        while is_transient(received) and time.monotonic() < deadline:
            received = self._ask(connection, exchange)
        return received

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
        for theirs, ours in self._member_ids.items():
            request = request.replace(theirs, ours)
        session_id = exchange.decoded_request.get("sessionId", 0)
        if exchange.api_key == FETCH and isinstance(session_id, int) and session_id > 0:
            request = with_session_id(request, self._session_ids[session_id])
        return request

    def _learn(self, recorded: object, received: object) -> None:
        ours = topic_ids(received)
        self._topic_ids |= {theirs: ours[name] for name, theirs in topic_ids(recorded).items() if name in ours}
        theirs_id, ours_id = (str(getattr(response, "member_id", None) or "") for response in (recorded, received))
        if theirs_id:
            assert len(ours_id) == len(theirs_id), "a member id is the client id, a dash and a UUID"
            self._member_ids[theirs_id.encode()] = ours_id.encode()
        session_id = getattr(recorded, "session_id", 0)
        if session_id > 0:
            self._session_ids[session_id] = getattr(received, "session_id", 0)


def recorded_response(exchange: Exchange) -> object:
    """What Apache Kafka answered."""
    return decode_response(exchange.api_key, exchange.api_version, exchange.response)


def is_transient(response: object) -> bool:
    """Whether any error in the response says to ask again."""
    return any(
        path.endswith("error_code") and int(value) in TRANSIENT for path, value in shape_of(response) if value.isdigit()
    )


def _producer_id(response: object) -> int:
    return int(getattr(response, "producer_id", -1))


def _receive(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = connection.recv(1 << 20)
        assert more, "the node closed the connection instead of answering"
        data += more
    return data[4:]


def _playable(session: str) -> Iterator[Exchange]:
    """The part of a session that the node serves, without the requests that had to be repeated."""
    transactional = False
    for exchange in recorded_exchanges(session):
        request = exchange.decoded_request
        in_transaction = bool(request.get("transactionalId")) or request.get("keyType") == TRANSACTION_KEY_TYPE
        transactional = transactional or in_transaction
        left_out = (transactional and exchange.api_key == FETCH) or (in_transaction and END_TXN not in SERVED)
        if exchange.api_key in SERVED and not left_out and not is_transient(recorded_response(exchange)):
            yield exchange


def _comparable(response: object, exchange: Exchange) -> Shape:
    ignored = _set_up_differently(exchange)
    return frozenset(leaf for leaf in shape_of(response) if not leaf[0].startswith(ignored))


@pytest.fixture
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """A player on a fresh node whose id is the recorded one."""
    with target_node(tmp_path_factory.mktemp("wire"), SETTINGS) as node:
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
