"""The dispatcher in front of a node's own: writes the journal and lets faults happen.

A node has it only after a test has asked for a fault or a journal. It changes frames and never reaches into the node.
Requests of the kit's own client and of other nodes pass it by.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from crabka.embedded.edge.exchange import Exchange
from crabka.errors import WireError
from crabka.protocol.headers import parse_request_header

if TYPE_CHECKING:
    from crabka.embedded.edge.exchange import Behind
    from crabka.embedded.edge.journal import Journal, JournalEntry
    from crabka.embedded.edge.own_connections import OwnConnections
    from crabka.net.dispatch import ConnectionInfo, Response
    from crabka.serving.changed_answers import Answer

# The client behind `broker.produce` and its like: neither recorded nor hit by faults.
OWN_CLIENT_ID: Final = "crabka-test-kit"


class EdgeDispatch:
    """Called with every frame of a client, as the dispatcher behind it."""

    def __init__(self, behind: Behind, journal: Journal | None, own: OwnConnections) -> None:
        """Requests that come in on connections of the nodes' own pass by."""
        self._behind = behind
        self._is_own = own.has
        self._dispatch = behind.dispatch
        self._node = behind.node
        self._faults = behind.faults
        self._journal = journal

    def __call__(self, connection: ConnectionInfo, frame: memoryview) -> Answer:
        """Answer one frame."""
        if self._faults.is_empty and self._journal is None:
            return self._dispatch(connection, frame)
        try:
            header = parse_request_header(frame)
        except WireError:
            return self._dispatch(connection, frame)
        if header.client_id == OWN_CLIENT_ID or self._is_own(connection.peer_host, connection.peer_port):
            return self._dispatch(connection, frame)
        journal, entry = self._journal, None
        if journal is not None:
            now_ms, node_id = self._node.now_ms(), self._node.node_id
            entry = journal.record(header, frame, now_ms=now_ms, node_id=node_id, peer=str(connection))
        candidates = self._faults.candidates(header.api_key, header.client_id, self._node.node_id)
        if candidates:
            exchange = Exchange(self._behind, connection, header, frame)
            answer = exchange.answer(candidates)
            if entry is not None:
                entry.fault = exchange.effects
        else:
            answer = self._dispatch(connection, frame)
        if journal is None or entry is None:
            return answer
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: _note_answer(journal, entry, done))
        elif answer is not None:
            journal.note_answer(entry, answer)
        return answer


def _note_answer(journal: Journal, entry: JournalEntry, done: asyncio.Future[Response]) -> None:
    if not done.cancelled() and done.exception() is None and (response := done.result()) is not None:
        journal.note_answer(entry, response)
