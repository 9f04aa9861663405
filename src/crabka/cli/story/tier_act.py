"""The second act of the tour: a topic leaves the disk for the remote tier."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console

from crabka.cli.tier.progress import TierProgress
from crabka.cli.tier.status import status_rows
from crabka.cli.tier.storage import open_storage
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner, ResourceType
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL, LATEST_TIERED
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.remote_topic.tier_check import CheckOptions, CheckResult, TierCheck, check_on_threads
from crabka.remote_topic.tier_view import TierView, offsets_at

if TYPE_CHECKING:
    from crabka.clients.cluster.cluster import Cluster

# Small segments and eager retention: a visitor does not want to wait.
TIERED_TOPIC: Final = {"remote.storage.enable": "true", "segment.bytes": str(1 << 20)}
_KEEP_LOCAL: Final = "local.retention.ms"
_KEPT: Final = "-2"
_SENT_AWAY: Final = "1"
_POLL_S: Final = 0.1
_PATIENCE_S: Final = 120

Advance = Callable[[int], None]


class TierFacts(NamedTuple):
    """What became of a topic."""

    segment_count: int
    remote_bytes: int
    local_bytes: int
    verdict: CheckResult


async def keep_on_disk(admin: Admin, topic: str) -> None:
    """Make a topic a tiered one that stays on the disk for now, whatever an earlier tour left."""
    settings = TIERED_TOPIC | {_KEEP_LOCAL: _KEPT}
    await _set(admin, topic, settings)


async def send_to_tier(
    admin: Admin, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], advance: Advance
) -> None:
    """Let a topic leave the disk; return when all from `starts` to `ends` is in the tier alone.

    Raises CrabkaError if it stays.
    """
    for topic in {partition.topic for partition in ends}:
        await _set(admin, topic, {_KEEP_LOCAL: _SENT_AWAY})
    shown = sum(starts.values())
    patience = time.monotonic() + _PATIENCE_S
    while True:
        reached = sum((await _first_missing(admin, starts, ends)).values())
        advance(reached - shown)
        shown = reached
        local = await offsets_at(admin, ends, EARLIEST_LOCAL)
        if all((local[partition] or 0) >= end for partition, end in ends.items()):
            return
        if time.monotonic() > patience:
            raise CrabkaError(f"the topic did not leave the disk within {_PATIENCE_S} s")
        await asyncio.sleep(_POLL_S)


async def look_at_tier(cluster: Cluster, topic: str, tier: str) -> TierFacts:
    """Count what is where, and scrub the tier."""
    view = TierView(cluster, [topic])
    await view.read_on()
    rows = await status_rows(Admin(cluster), view)
    storage = open_storage(tier, None)
    assert storage is not None  # noqa: S101 - it was named
    try:
        contents = check_on_threads(storage, 2)
        check = TierCheck(TierView(cluster, [topic]), storage, CheckOptions(grace_ms=60_000), contents)
        # The tour has its own display, and a terminal has room for one.
        verdict = await check.run(TierProgress(Console(stderr=True, force_terminal=False)))
    finally:
        storage.close()
    return TierFacts(
        sum(row["segments"] for row in rows),
        sum(row["remote_bytes"] for row in rows),
        sum(row["local_bytes"] or 0 for row in rows),
        verdict,
    )


async def _first_missing(
    admin: Admin, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that is not in the tier, between its start and its end."""
    tiered = await offsets_at(admin, ends, LATEST_TIERED)
    return {
        partition: max(starts[partition], min(end, -1 if (offset := tiered[partition]) is None else offset + 1))
        for partition, end in ends.items()
    }


async def _set(admin: Admin, topic: str, settings: Mapping[str, str]) -> None:
    changes = [ConfigChange(name, value) for name, value in settings.items()]
    await admin.alter_configs(ConfigOwner(ResourceType.TOPIC, topic), changes)
