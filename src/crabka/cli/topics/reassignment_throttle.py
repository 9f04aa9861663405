"""The throttle of reassignments (KIP-73): rates of brokers, and the replicas to which they apply.

As kafka-reassign-partitions sets and removes them: current replicas are throttled as leaders, added ones as followers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOperation, ConfigOwner, ResourceType
from crabka.ids import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttled_replicas(
    current: Mapping[TopicPartition, Sequence[int]], plan: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Return the settings of each topic that list throttled replicas; topics without moves are left out."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for partition in sorted(plan):
        adding = [replica for replica in plan[partition] if replica not in current[partition]]
        if adding:
            topic = pairs.setdefault(partition.topic, {LEADERS: [], FOLLOWERS: []})
            topic[LEADERS] += [f"{partition.partition}:{replica}" for replica in current[partition]]
            topic[FOLLOWERS] += [f"{partition.partition}:{replica}" for replica in adding]
    return {topic: {key: ",".join(members) for key, members in found.items()} for topic, found in pairs.items()}


async def set_throttle(
    admin: Admin,
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
    bytes_per_second: int,
) -> None:
    """Set the throttle of a plan before it starts, on the live brokers: only a broker itself accepts its settings."""
    for topic, settings in throttled_replicas(current, plan).items():
        changes = [ConfigChange(key, value) for key, value in settings.items()]
        await admin.alter_configs(ConfigOwner(ResourceType.TOPIC, topic), changes)
    involved = {replica for replicas in (*current.values(), *plan.values()) for replica in replicas}
    living = {broker.node_id for broker in (await admin.cluster.describe()).brokers}
    rates = [ConfigChange(key, str(bytes_per_second)) for key in RATES]
    for broker in sorted(involved & living):
        await admin.alter_configs(ConfigOwner(ResourceType.BROKER, str(broker)), rates)


async def clear_throttle(admin: Admin, topics: Iterable[str] | None = None) -> None:
    """Remove the throttles of all brokers and of the given topics, or of all topics."""
    existing = set(await admin.list_topics())
    for topic in sorted(existing if topics is None else existing & set(topics)):
        await _reset(admin, ConfigOwner(ResourceType.TOPIC, topic), (LEADERS, FOLLOWERS))
    for broker in (await admin.cluster.describe()).brokers:
        await _reset(admin, ConfigOwner(ResourceType.BROKER, str(broker.node_id)), RATES)


async def _reset(admin: Admin, owner: ConfigOwner, keys: Sequence[str]) -> None:
    # Rates without a value are not listed or have none; the replicas of a topic are empty then.
    if any(found.value for found in (await admin.describe_configs(owner, keys)).values()):
        await admin.alter_configs(owner, [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys])
