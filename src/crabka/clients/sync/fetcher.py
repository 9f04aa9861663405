"""The fetcher with blocking calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crabka.clients.cluster.cluster import Bootstrap, Cluster, ClusterSettings
from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings
from crabka.clients.sync.session import SyncSession
from crabka.ids import TopicPartition


class SyncFetcher:
    """`Fetcher` with blocking calls."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        settings: FetcherSettings | None = None,
        *,
        cluster_settings: ClusterSettings | None = None,
    ) -> None:
        self._session = SyncSession(
            lambda runtime: Cluster(runtime, bootstrap, cluster_settings),
            lambda cluster: Fetcher(cluster, settings),
            lambda fetcher: fetcher.close(),
        )
        self._run = self._session.run
        self._client = self._session.client

    def close(self) -> None:
        """Close the client and its connections. Closing twice is allowed."""
        self._session.close()

    def __enter__(self) -> SyncFetcher:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int | None]) -> None:
        """Replace the assignment; a mapping gives start offsets."""

        async def assign() -> None:
            self._client.assign(partitions)

        self._run(assign())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset."""

        async def seek() -> None:
            self._client.seek(partition, offset)

        self._run(seek())

    def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go to a timestamp or a special position."""
        self._run(self._client.seek_to(list(partitions), timestamp))

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None while it is unknown."""
        return self._client.position(partition)

    def poll(self, timeout_ms: int = 1_000, max_records: int = 500) -> list[FetchedRecord]:
        """Return up to `max_records` as soon as there are some, none after the timeout."""
        return self._run(self._client.poll(timeout_ms, max_records))
