"""Open transactions of all coordinators, and those in partitions that no coordinator knows."""

from __future__ import annotations

from typing import Final

from crabka.cli.doctor.checks.transactions import GRACE_MS, TransactionFacts
from crabka.cli.doctor.gathering.overview import Overview
from crabka.cli.transactions.commands import OPEN_STATES
from crabka.cli.transactions.hanging import DEFAULT_MAX_TIMEOUT_MS, find_hanging
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.ids import TopicPartition

_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"


async def gather_transactions(cluster: Cluster, overview: Overview, timeout_ms: int) -> TransactionFacts:
    """Return open and hanging transactions. Raises NotApplicableError without all coordinators."""
    overview.require_coordinators()
    admin = Admin(cluster, timeout_ms)
    listed = await admin.transactions.list(states=OPEN_STATES)
    described = await admin.transactions.describe(each.transactional_id for each in listed)
    partitions = [
        TopicPartition(name, index)
        for name, topic in overview.topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader in overview.reachable
    ]
    limits = [int(text) for text in overview.broker_setting(_MAX_TIMEOUT).values() if text.isdecimal()]
    hanging = await find_hanging(cluster, partitions, max(limits, default=DEFAULT_MAX_TIMEOUT_MS))
    return TransactionFacts(list(described.values()), hanging, cluster.runtime.clock.now_ms(), GRACE_MS)
