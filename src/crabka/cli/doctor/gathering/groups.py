"""The committed offsets of all groups, with the bounds of their logs and what retention is about to remove."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from crabka.cli.doctor.checks.groups import EXPIRING_SHARE, GroupFacts, GroupPosition
from crabka.cli.doctor.checks.settings import CLEANUP_POLICY, RETENTION_MS
from crabka.cli.doctor.gathering.overview import Configs, Overview, topic_configs
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupListing, GroupOffset
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.fetcher.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets_once
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition

_GROUPS_AT_ONCE: Final = 8
_LIST_OFFSETS_MS: Final = 30_000
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
# Groups that keep no committed offsets.
_OTHER_TYPES: Final = ("share",)


class _Committed(NamedTuple):
    group: GroupListing
    offsets: Mapping[TopicPartition, GroupOffset]


async def gather_groups(cluster: Cluster, overview: Overview) -> GroupFacts:
    """Return the positions of all groups that can be read. Raises NotApplicableError without all coordinators."""
    overview.require_coordinators()
    admin = Admin(cluster)
    groups = [each for each in await admin.groups.list() if each.type not in _OTHER_TYPES]
    turns = asyncio.Semaphore(_GROUPS_AT_ONCE)
    answers = await asyncio.gather(*(_committed(admin, group, turns) for group in groups))
    known = [each for each in answers if isinstance(each, _Committed)]
    unreadable = [each for each in answers if isinstance(each, str)]
    partitions = sorted(
        {partition for each in known for partition in each.offsets if partition.topic in overview.topics}
    )
    starts, ends = await _offsets(cluster, partitions, EARLIEST), await _offsets(cluster, partitions, LATEST)
    behind = {
        partition
        for each in known
        for partition, offset in each.offsets.items()
        if offset.offset < ends.get(partition, -1)
    }
    configs = await topic_configs(
        admin, sorted({partition.topic for partition in behind}), (RETENTION_MS, CLEANUP_POLICY)
    )
    retention = {name: _retention_ms(found) for name, found in configs.items()}
    expiring = await _expiring(cluster, behind, retention, ends)
    positions = [
        GroupPosition(
            each.group.group_id,
            each.group.state not in _WITHOUT_MEMBERS,
            partition,
            offset.offset,
            starts.get(partition),
            ends.get(partition),
            expiring.get(partition),
            retention.get(partition.topic, -1),
        )
        for each in known
        for partition, offset in sorted(each.offsets.items())
    ]
    return GroupFacts(positions, len(groups), unreadable)


async def _committed(admin: Admin, group: GroupListing, turns: asyncio.Semaphore) -> _Committed | str:
    async with turns:
        try:
            return _Committed(group, await admin.groups.list_offsets(group.group_id))
        except CrabkaError as error:
            return f"group {group.group_id}: {error}"


async def _offsets(cluster: Cluster, partitions: Collection[TopicPartition], at: int) -> dict[TopicPartition, int]:
    """Return offsets; partitions whose leader does not answer are missing."""
    if not partitions:
        return {}
    wanted = dict.fromkeys(partitions, at)
    answers = await list_offsets_once(cluster, wanted, read_committed=False, timeout_ms=_LIST_OFFSETS_MS)
    return {partition: each.offset for partition, each in answers.items() if isinstance(each, OffsetAndTimestamp)}


async def _expiring(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    retention: Mapping[str, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that is not close to its removal by age."""
    now_ms = cluster.runtime.clock.now_ms()
    moments = {
        partition: max(0, round(now_ms - EXPIRING_SHARE * retention[partition.topic]))
        for partition in partitions
        if retention.get(partition.topic, -1) > 0
    }
    if not moments:
        return {}
    answers = await list_offsets_once(cluster, moments, read_committed=False, timeout_ms=_LIST_OFFSETS_MS)
    # Without a record that is so new, all of them are old.
    return {
        partition: each.offset if each.offset >= 0 else ends[partition]
        for partition, each in answers.items()
        if isinstance(each, OffsetAndTimestamp)
    }


def _retention_ms(configs: Configs) -> int:
    """Return after which time records are removed, -1 if never."""
    policy, retention = configs.get(CLEANUP_POLICY), configs.get(RETENTION_MS)
    if policy is None or retention is None or "delete" not in (policy.value or "").split(","):
        return -1
    text = retention.value or ""
    return int(text) if text.isdecimal() else -1
