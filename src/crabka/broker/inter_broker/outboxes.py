"""What waits to be sent to other brokers: one request is in flight to each, what comes meanwhile shares the next.

Kafka's senders between brokers work like this. What is sent and what an answer means is the owner's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.inter_broker.connections import BrokerConnections
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Spawn

E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherBrokers:
    """What all senders to other brokers need of this one."""

    brokers: BrokerConnections
    identity: BrokerIdentity
    image: Callable[[], MetadataImage]
    spawn: Spawn
    # The time for one request, which is looked up each time.
    timeout_ms: Callable[[], int]


class BrokerOutboxes(Generic[E]):
    """Entries by broker and key. Owners answer entries themselves, also those that they replace."""

    def __init__(
        self,
        spawn: Spawn,
        # Sends a batch and answers every entry of it.
        send: Callable[[int, list[E]], Awaitable[None]],
        *,
        # Answers an entry that `send` left without an answer, because it raised or was cancelled.
        give_up: Callable[[E], None],
        max_batch_count: int,
    ) -> None:
        self._spawn = spawn
        self._send = send
        self._give_up = give_up
        self._max_batch_count = max_batch_count
        # A broker is here as long as there are requests for it.
        self._waiting: dict[int, dict[Hashable, E]] = {}
        # Brokers that were logged already.
        self._unreached: set[int] = set()

    def note_reached(self, node_id: int) -> None:
        """Learn that a broker answered."""
        self._unreached.discard(node_id)

    def note_unreached(self, node_id: int) -> bool:
        """Learn that a broker did not answer; return whether that is news."""
        is_news = node_id not in self._unreached
        self._unreached.add(node_id)
        return is_news

    def waiting(self, node_id: int, key: Hashable) -> E | None:
        """Return the entry of a key that was not sent yet."""
        return self._waiting.get(node_id, {}).get(key)

    def put(self, node_id: int, key: Hashable, entry: E) -> None:
        """Send an entry with the next request; it takes the place of one with the same key that still waits."""
        waiting = self._waiting.get(node_id)
        if waiting is None:
            waiting = self._waiting[node_id] = {}
            self._spawn(self._run(node_id, waiting))
        waiting[key] = entry

    async def _run(self, node_id: int, waiting: dict[Hashable, E]) -> None:
        batch: list[E] = []
        try:
            while waiting:
                batch = [waiting.pop(key) for key in list(waiting)[: self._max_batch_count]]
                await self._send(node_id, batch)
                batch = []
        finally:
            del self._waiting[node_id]
            # Owners wait for answers without a limit.
            for entry in (*batch, *waiting.values()):
                self._give_up(entry)
