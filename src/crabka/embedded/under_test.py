"""What a broker, a cluster and a node of a cluster offer to a test.

Topics and records, waiting for a condition, faults at will, and a journal of requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from crabka.embedded.settings import NO_SETTINGS, Settings
from crabka.embedded.waiting import note_seen, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.clients.fetcher.fetcher import FetchedRecord
    from crabka.clients.producer.accumulator import RecordMetadata
    from crabka.embedded.client import KitClient
    from crabka.embedded.edge.edge import Edge
    from crabka.embedded.edge.fault import Fault
    from crabka.embedded.edge.journal import Journal, JournalEntry
    from crabka.embedded.row import AnyRow

T = TypeVar("T")

WAIT_S = 10.0


class UnderTest(ABC):
    """Something that serves Kafka clients while a test runs. All methods may be called from any thread."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """host:port of the brokers, for clients. Raises RuntimeError with the reason if none of them runs."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether everything of it runs."""

    @abstractmethod
    def restore(self) -> None:
        """Undo what a test has done to it: start what does not run, resume what is paused, end all faults."""

    @abstractmethod
    def _edge(self) -> Edge:
        """Return faults and journal. Raises RuntimeError if there are none."""

    @abstractmethod
    def _client(self) -> KitClient:
        """Return the kit's own client."""

    @abstractmethod
    def _check(self) -> None:
        """Raise RuntimeError if something failed that should run."""

    def _note_created(self, topic: str) -> None:  # noqa: B027 - most have nothing to do
        """Wait until a new topic is known everywhere."""

    def _node_id(self) -> int | None:
        """Return the node that faults and requests are limited to, None for all."""
        return None

    @property
    def bootstrap(self) -> str:
        """The same as `bootstrap_servers`."""
        return self.bootstrap_servers

    # --- topics and records

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int | None = None, settings: Settings = NO_SETTINGS
    ) -> str:
        """Create a topic and wait until it has leaders; return its name. Without `replicas` the broker decides.

        `settings` are Kafka's, such as {"cleanup.policy": "compact"}. Raises ConfigError for a setting that Kafka does
        not have, OperationError from the broker.
        """
        self._client().create_topic(name, partitions, replicas, settings)
        self._note_created(name)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records. Raises OperationError if there is none."""
        self._client().delete_topic(name)

    def produce(self, topic: str, rows: Iterable[AnyRow], *, partition: int | None = None) -> list[RecordMetadata]:
        """Produce records and wait until all replicas in sync have them; return their positions.

        A row is a value, a pair of key and value, or a `Row` with headers, partition or timestamp; text is written as
        UTF-8. A topic that does not exist is created if the broker does so. Raises OperationError, TypeError.
        """
        return self._client().produce(topic, rows, partition)

    def records(self, topic: str, *, partition: int | None = None, read_committed: bool = False) -> list[FetchedRecord]:
        """Return all records that a topic, or one of its partitions, has now, by partition and offset.

        It does not wait for more, and commits nothing. With `read_committed` records of open and aborted transactions
        are left out. Raises OperationError if there is no such topic, LookupError if there is no such partition.
        """
        found = self._client().records(topic, partition, read_committed=read_committed)
        note_seen(f"records({topic!r})", [record.value for record in found])
        return found

    def lag(self, group: str, *, topic: str | None = None) -> int:
        """Return how many records of its topics, or of one, a group has not committed yet.

        Partitions without a commit count from their first record. Raises LookupError while the group has committed
        nothing at all and no topic is given; for `wait_until` that means: not yet.
        """
        return note_seen(f"lag({group!r})", self._client().lag(group, topic))

    def wait_until(self, condition: Callable[[], T], timeout: float = WAIT_S, *, message: str | None = None) -> T:
        """Call the condition until its result is true, and return that.

        Failed assertions, missing items (LookupError) and errors of the broker mean: not yet. Raises TimeoutError, with
        what the condition has seen last, and RuntimeError if the broker fails meanwhile.
        """
        return wait_until(condition, timeout, message=message, check=self._check)

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
        """End all faults; those of a node only, if it is one."""
        node_id = self._node_id()
        for fault in self._edge().faults:
            if node_id in (None, fault.target.node_id):
                fault.remove()

    # --- journal

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[JournalEntry]:
        """Return the requests of clients so far, of an API such as "OffsetCommit", of a client, or all.

        The oldest comes first. Those of the kit itself are left out. Raises ValueError for an API that Kafka does not
        have, RuntimeError if requests are not recorded.
        """
        found = self._edge().requests(api, client_id=client_id)
        node_id = self._node_id()
        mine = found if node_id is None else [each for each in found if each.node_id == node_id]
        return note_seen(f"requests({'' if api is None else repr(api)})", mine)

    @property
    def journal(self) -> Journal:
        """The last requests with their outcomes; `print(broker.journal)` shows them.

        Raises RuntimeError if requests are not recorded.
        """
        return self._edge().recorded
