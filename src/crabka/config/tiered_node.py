"""Properties that give nodes on one machine a remote tier: what `--tier` of `crabka up` and `cluster demo` adds."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_REPLICAS = 3
# Who tries tiering out wants to see it: segments are copied, and leave the disk, within seconds.
_TASK_INTERVAL_MS = 1_000
_RETENTION_CHECK_MS = 5_000


def tiered_node_properties(storage: Mapping[str, str], *, node_count: int = 1) -> dict[str, str]:
    """Return the properties of a node that keeps a tier in a storage, which is named by properties of its own.

    The metadata topic gets three replicas, as far as there are nodes.
    """
    replicas = min(_MOST_REPLICAS, node_count)
    return {
        "remote.log.storage.system.enable": "true",
        **storage,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(max(1, replicas - 1)),
        "remote.log.manager.task.interval.ms": str(_TASK_INTERVAL_MS),
        "log.retention.check.interval.ms": str(_RETENTION_CHECK_MS),
        "log.initial.task.delay.ms": str(_TASK_INTERVAL_MS),
    }
