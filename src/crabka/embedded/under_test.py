"""What a broker, a cluster and a node of a cluster offer to a test: faults at will, and a journal of requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.embedded.edge.edge import Edge
    from crabka.embedded.edge.fault import Fault
    from crabka.embedded.edge.journal import Journal, JournalEntry


class UnderTest(ABC):
    """Something that serves Kafka clients while a test runs. All methods may be called from any thread."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """host:port of the brokers, for clients. Raises RuntimeError with the reason if none of them runs."""

    @abstractmethod
    def _edge(self) -> Edge:
        """Return faults and journal. Raises RuntimeError if there are none."""

    def _node_id(self) -> int | None:
        """Return the node that faults and requests are limited to, None for all."""
        return None

    @property
    def bootstrap(self) -> str:
        """The same as `bootstrap_servers`."""
        return self.bootstrap_servers

    # --- faults

    def fail_next(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Answer the next requests of an API with an error, without executing them.

        Names are Kafka's, such as `fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)`; `times=None` means
        until the fault is removed. With a topic or a partition only those rows of a request fail. Raises ValueError for
        an API or error that Kafka does not have, and for a topic where the API has none.
        """
        return self._edge().faults.fail_next(
            api, error, times=times, topic=topic, partition=partition, client_id=client_id, node=self._node_id()
        )

    def delay(self, api: str, seconds: float, *, times: int | None = None, client_id: str | None = None) -> Fault:
        """Execute requests of an API as they come, and hold back their answers.

        Later answers of the same connection wait as well, as with a slow broker. Raises ValueError.
        """
        return self._edge().faults.delay(api, seconds, times=times, client_id=client_id, node=self._node_id())

    def drop_connection(
        self,
        *,
        after: str | None = None,
        before: str | None = None,
        before_answer: bool = True,
        times: int | None = 1,
        client_id: str | None = None,
    ) -> Fault:
        """Close the connection on which a request of an API arrives.

        `before`: the request is lost. `after`: it is executed, and its answer is lost, or with `before_answer=False`
        sent. Raises ValueError.
        """
        return self._edge().faults.drop_connection(
            after=after,
            before=before,
            before_answer=before_answer,
            times=times,
            client_id=client_id,
            node=self._node_id(),
        )

    def throttle(self, api: str, throttle_ms: int, *, times: int | None = None, client_id: str | None = None) -> Fault:
        """Put `throttle_time_ms` into the answers of an API, as a broker with quotas does. Raises ValueError."""
        return self._edge().faults.throttle(api, throttle_ms, times=times, client_id=client_id, node=self._node_id())

    def clear_faults(self) -> None:
        """End all faults."""
        self._edge().faults.clear()

    # --- journal

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[JournalEntry]:
        """Return the requests of clients so far, of an API such as "OffsetCommit", of a client, or all.

        The oldest comes first. Those of the kit itself are left out. Raises ValueError for an API that Kafka does not
        have, RuntimeError if requests are not recorded.
        """
        found = self._edge().requests(api, client_id=client_id)
        node_id = self._node_id()
        return found if node_id is None else [each for each in found if each.node_id == node_id]

    @property
    def journal(self) -> Journal:
        """The last requests with their outcomes; `print(broker.journal)` shows them.

        Raises RuntimeError if requests are not recorded.
        """
        return self._edge().recorded
