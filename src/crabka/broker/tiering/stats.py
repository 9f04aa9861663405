"""What copying, retention, deletion and reads count, under Kafka's names (BrokerTopicMetrics, KIP-405 and KIP-963)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.ids import TopicPartition

# Counters by topic, gauges by partition. A rate is the difference of two reads of a counter.
REMOTE_COPY_BYTES = "RemoteCopyBytesPerSec"
REMOTE_COPY_REQUESTS = "RemoteCopyRequestsPerSec"
REMOTE_COPY_ERRORS = "RemoteCopyErrorsPerSec"
REMOTE_DELETE_REQUESTS = "RemoteDeleteRequestsPerSec"
REMOTE_DELETE_ERRORS = "RemoteDeleteErrorsPerSec"
REMOTE_COPY_LAG_BYTES = "RemoteCopyLagBytes"
REMOTE_COPY_LAG_SEGMENTS = "RemoteCopyLagSegments"
REMOTE_DELETE_LAG_BYTES = "RemoteDeleteLagBytes"
REMOTE_DELETE_LAG_SEGMENTS = "RemoteDeleteLagSegments"
REMOTE_LOG_METADATA_COUNT = "RemoteLogMetadataCount"
REMOTE_LOG_SIZE_BYTES = "RemoteLogSizeBytes"
# Counters of reads by topic.
REMOTE_FETCH_BYTES = "RemoteFetchBytesPerSec"
REMOTE_FETCH_REQUESTS = "RemoteFetchRequestsPerSec"
REMOTE_FETCH_ERRORS = "RemoteFetchErrorsPerSec"
BUILD_AUX_STATE_REQUESTS = "BuildRemoteLogAuxStateRequestsPerSec"
BUILD_AUX_STATE_ERRORS = "BuildRemoteLogAuxStateErrorsPerSec"
# Fetches that returned nothing because the tier did not respond in time (DelayedRemoteFetchMetrics).
REMOTE_FETCH_EXPIRES = "ExpiresPerSec"
# Places of the tier that were found to be damaged, and those of them that are corrected whenever they are read. Not in
# Kafka.
REMOTE_DAMAGED_RANGES = "crabka_remote_damaged_ranges"
REMOTE_CORRECTED_RANGES = "crabka_remote_corrected_ranges"
REMOTE_INDEX_FAULTS = "crabka_remote_damaged_indexes"


class TierStats:
    """Plain counters and gauges; metrics read them on request."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._gauges: dict[str, dict[TopicPartition, int]] = defaultdict(dict)

    def count(self, name: str, topic: str, amount: int = 1) -> None:
        """Add to a counter of a topic."""
        self._counters[name][topic] += amount

    def set_gauge(self, name: str, partition: TopicPartition, value: int) -> None:
        """Set the present value of a partition."""
        self._gauges[name][partition] = value

    def forget(self, partition: TopicPartition) -> None:
        """Drop the gauges of a partition that is not led here any more; counters stay."""
        for values in self._gauges.values():
            values.pop(partition, None)

    def counter(self, name: str, topic: str | None = None) -> int:
        """Return a counter of a topic, or of all topics."""
        values = self._counters.get(name, {})
        return sum(values.values()) if topic is None else values.get(topic, 0)

    def gauge(self, name: str, partition: TopicPartition) -> int | None:
        """Return the value of a partition, None if it is not led here."""
        return self._gauges.get(name, {}).get(partition)

    def counters(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield counters by name, each with its values by topic."""
        yield from self._counters.items()

    def gauges(self) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
        """Yield gauges by name, each with its values by partition."""
        yield from self._gauges.items()
