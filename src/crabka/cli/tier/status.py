"""`crabka tier status`: bytes of each partition on disks, in the tier, and still to be copied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from crabka.cli.output import Column
from crabka.clients.admin.admin import Admin
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.remote.segments import newest_segment
from crabka.remote_topic.tier_view import TierView, offsets_at, topic_settings

if TYPE_CHECKING:
    from crabka.cli.output import Row
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

STATUS_COLUMNS: Final = (
    "topic",
    "partition",
    Column("local_bytes", "on disk"),
    Column("remote_bytes", "in tier"),
    "segments",
    Column("lag_offsets", yields=1),
    Column("lag_bytes", "lag"),
    Column("lag_segments", yields=8),
    Column("start", yields=5),
    Column("local_start", yields=4),
    Column("tiered", yields=2),
    Column("high_watermark", yields=3),
    Column("beyond_end", yields=7),
)
_ENABLED, _SEGMENT_BYTES = "remote.storage.enable", "segment.bytes"


async def status_rows(admin: Admin, view: TierView) -> list[Row]:
    """Return a row for each partition that is or was tiered."""
    finished = view.finished()
    partitions = view.live_partitions()
    names = list(dict.fromkeys(partition.topic for partition in partitions))
    settings = await topic_settings(admin, names, (_ENABLED, _SEGMENT_BYTES))
    shown = {
        partition: identity
        for partition, identity in partitions.items()
        if identity in finished or settings.get(partition.topic, {}).get(_ENABLED) == "true"
    }
    kinds = {"start": EARLIEST, "local_start": EARLIEST_LOCAL, "tiered": LATEST_TIERED, "high_watermark": LATEST}
    answers = await asyncio.gather(*(offsets_at(admin, shown, timestamp) for timestamp in kinds.values()))
    offsets = dict(zip(kinds, answers, strict=True))
    local_bytes = await _local_bytes(admin, view, shown)
    rows: list[Row] = []
    for partition, identity in shown.items():
        known = {name: found[partition] for name, found in offsets.items()}
        remote = finished.get(identity, [])
        if known["tiered"] is None and (last := newest_segment(remote)) is not None:
            # Older brokers do not support this request.
            known["tiered"] = last.end_offset
        size = local_bytes.get(partition)
        segment_bytes = int(settings.get(partition.topic, {}).get(_SEGMENT_BYTES) or 0)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "local_bytes": size,
                "remote_bytes": sum(segment.segment_size_bytes for segment in remote),
                "segments": len(remote),
                **lag(known, size, segment_bytes),
                **known,
                "beyond_end": count_beyond(remote, known["high_watermark"]),
            }
        )
    return rows


def count_beyond(segments: Sequence[RemoteLogSegmentMetadata], high_watermark: int | None) -> int | None:
    """Return the number of segments beyond the log: not zero if its leader lost records that the tier still has.

    They stay until `crabka tier forget` deletes them.
    """
    return None if high_watermark is None else sum(each.end_offset >= high_watermark for each in segments)


def lag(offsets: Mapping[str, int | None], local_bytes: int | None, segment_bytes: int) -> dict[str, int | None]:
    """Return the part that is not in the tier yet.

    Offsets are counted. Brokers report bytes and segments as metrics only, so both are estimated: from the share of the
    local offsets that are not tiered, and from the size of sealed segments.
    """
    end, first = offsets["high_watermark"], offsets["start"]
    local_start = first if offsets["local_start"] is None else offsets["local_start"]
    if end is None or first is None or local_start is None:
        return {"lag_offsets": None, "lag_bytes": None, "lag_segments": None}
    tiered = offsets["tiered"]
    waiting = end - max(first, -1 if tiered is None else tiered + 1)
    if local_bytes is None or waiting < 0:
        return {"lag_offsets": max(waiting, 0), "lag_bytes": None, "lag_segments": None}
    local = end - local_start
    lag_bytes = round(local_bytes * min(waiting / local, 1)) if local > 0 else 0
    return {
        "lag_offsets": waiting,
        "lag_bytes": lag_bytes,
        "lag_segments": lag_bytes // segment_bytes if segment_bytes else None,
    }


async def _local_bytes(
    admin: Admin, view: TierView, partitions: Mapping[TopicPartition, TopicIdPartition]
) -> dict[TopicPartition, int]:
    """Return the sizes of the leaders' logs; those of brokers that do not answer are missing."""
    leaders = {
        partition: view.topics[partition.topic].partitions[partition.partition].leader for partition in partitions
    }

    async def ask(node_id: int) -> dict[TopicPartition, int]:
        try:
            dirs = await admin.log_dirs.describe(node_id)
        except (ClientNetworkError, OperationError):
            return {}
        return {
            TopicPartition(topic, index): replica.size_bytes
            for log_dir in dirs
            for (topic, index), replica in log_dir.replicas.items()
            if not replica.is_future
        }

    nodes = sorted({leader for leader in leaders.values() if leader >= 0})
    sizes = dict(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))
    return {
        partition: sizes[leader][partition]
        for partition, leader in leaders.items()
        if leader in sizes and partition in sizes[leader]
    }
