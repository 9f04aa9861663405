"""The assignor `range`: each member gets one range of partitions of every topic.

Members with the same subscription get the same partition numbers of all topics with the same number of partitions, so
that topics can be joined by partition. Static members come first, by instance id, so that they keep their ranges after
a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uuid

    from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions


def assign(spec: AssignmentSpec) -> dict[str, Partitions]:
    """Return the target assignment."""
    ordered = sorted(
        spec.members.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or item[0])
    )
    subscribers: dict[uuid.UUID, list[str]] = {}
    for member_id, member in ordered:
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    shares: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(spec.partition_counts[topic_id], len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + quota + (position < extra)
            if end > start:
                shares[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(shares)
