"""Throttled replication: how many bytes per second replicas under a move may take (KIP-73). PURE.

Settings of a topic name throttled replicas (`leader.` and `follower.replication.throttled.replicas`), those of a broker
the rate. Over the rate a leader leaves throttled partitions out of its answers to followers that are not in sync, and a
follower does not ask for those where it lags. Who is in sync is never throttled.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.metadata.configs import ConfigsImage

ALL_REPLICAS = "*"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
_CLUSTER_DEFAULT = ""


def throttled_rate(configs: ConfigsImage, node_id: int, name: str) -> int | None:
    """Return a rate in bytes per second that is set for a broker or for all of them, None if there is none."""
    for resource_name in (str(node_id), _CLUSTER_DEFAULT):
        value = configs.get(ConfigResourceType.BROKER, resource_name).get(name)
        if value is not None:
            return int(value)
    return None


def is_throttled_replica(setting: Sequence[str], partition_index: int, broker_id: int) -> bool:
    """Return whether a topic's setting, a list of partition:broker pairs or `*`, names a replica."""
    return ALL_REPLICAS in setting or f"{partition_index}:{broker_id}" in setting


class ReplicationThrottle:
    """Measures a rate over a sliding window and compares it with a limit, as Kafka's ReplicationQuotaManager."""

    def __init__(self, *, sample_count: int = 11, sample_ms: int = 1000) -> None:
        self._sample_count = sample_count
        self._sample_ms = sample_ms
        # Start time and bytes of each sample, oldest first.
        self._samples: deque[tuple[int, int]] = deque()
        # None is no limit.
        self.bytes_per_second: int | None = None

    def record(self, byte_count: int, now_ms: int) -> None:
        """Count bytes of throttled replicas."""
        self._forget(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._sample_ms:
            start_ms, counted = self._samples[-1]
            self._samples[-1] = (start_ms, counted + byte_count)
        else:
            self._samples.append((now_ms, byte_count))

    def rate(self, now_ms: int) -> float:
        """Return the bytes per second of the window; it takes one sample's time at least to judge."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._sample_ms)
        return sum(counted for _, counted in self._samples) * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether throttled replicas have to wait."""
        return self.bytes_per_second is not None and self.rate(now_ms) > self.bytes_per_second

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._sample_count * self._sample_ms:
            self._samples.popleft()


def may_move(throttle: ReplicationThrottle, *, is_throttled: bool, is_in_sync: bool, now_ms: int) -> bool:
    """Return whether records of a partition may move now."""
    return is_in_sync or not is_throttled or not throttle.is_exceeded(now_ms)
