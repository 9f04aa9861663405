"""What stands between a node of this process and its clients: faults and a journal, there only if asked for."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING

from crabka.embedded.edge.dispatch import EdgeDispatch
from crabka.embedded.edge.exchange import Behind
from crabka.embedded.edge.faults import Faults
from crabka.embedded.edge.journal import Journal, JournalEntry
from crabka.embedded.edge.own_connections import OwnConnections

if TYPE_CHECKING:
    from uuid import UUID

    from crabka.net.dispatch import Dispatch
    from crabka.node.node import Node
    from crabka.ports import Clock


class Edge:
    """Faults and journal of one node or of the nodes of one cluster. They outlive the nodes."""

    def __init__(self, *, journal: bool = False) -> None:
        """A journal begins with the first request; without it requests are not recorded."""
        self.faults = Faults(self._install)
        self.journal: Journal | None = Journal() if journal else None
        # What nodes send to each other is neither recorded nor hit by faults.
        self.own = OwnConnections()
        self._is_installed = journal
        self._nodes: list[_AttachedNode] = []

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[JournalEntry]:
        """Return the requests of clients. Raises RuntimeError without a journal, ValueError for an unknown API."""
        return self.recorded.requests(api, client_id=client_id)

    @property
    def recorded(self) -> Journal:
        """The journal. Raises RuntimeError if there is none."""
        if self.journal is None:
            raise RuntimeError("requests are not recorded: start it with journal=True")
        return self.journal

    def attach(self, node: Node, clock: Clock, node_id: int) -> None:
        """Stand in front of a node that is not started yet; called on its loop."""
        attached = _AttachedNode(node, clock, node_id)
        self._nodes.append(attached)
        if self._is_installed:
            self._intercept(attached)

    def detach(self, node: Node) -> None:
        """Forget a node that has stopped."""
        self._nodes = [each for each in self._nodes if each.node is not node]

    def _install(self) -> None:
        """Stand in front of the nodes that run; called on the thread of a test."""
        if self._is_installed:
            return
        self._is_installed = True
        for attached in self._nodes:
            done: Future[None] = Future()

            def intercept(attached: _AttachedNode = attached, done: Future[None] = done) -> None:
                self._intercept(attached)
                done.set_result(None)

            if attached.is_here():
                intercept()
            else:
                attached.loop.call_soon_threadsafe(intercept)
                done.result()

    def _intercept(self, attached: _AttachedNode) -> None:
        def wrap(dispatch: Dispatch) -> Dispatch:
            return EdgeDispatch(Behind(dispatch, attached, self.faults), self.journal, self.own)

        attached.node.listeners.intercept(wrap)


class _AttachedNode:
    def __init__(self, node: Node, clock: Clock, node_id: int) -> None:
        self.node = node
        self.node_id = node_id
        self.loop = asyncio.get_running_loop()
        self.now_ms = clock.now_ms
        self.cut = node.listeners.cut

    def is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.node.quorum.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name
