"""How segments and faults of a tier are printed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from crabka.cli.output import Row, print_json
from crabka.ids import uuid_to_text
from crabka.remote.scrub import Severity, TierFault

if TYPE_CHECKING:
    from rich.text import Text

    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote_topic.tier_check import CheckResult

SEGMENT_COLUMNS: Final = ("topic", "partition", "start", "end", "epochs", "state", "size_bytes", "age", "broker", "id")

_STYLES: Final = {Severity.DAMAGE: "bold red", Severity.LEAK: "yellow", Severity.NOTE: "dim"}


def segment_row(segment: RemoteLogSegmentMetadata, now_ms: int) -> Row:
    """Return the row of a segment for `crabka tier ls`."""
    return {
        "topic": segment.topic_id_partition.topic,
        "partition": segment.topic_id_partition.partition,
        "start": segment.start_offset,
        "end": segment.end_offset,
        "epochs": [f"{epoch}={first}" for epoch, first in segment.leader_epochs],
        "state": segment.state.name,
        "size_bytes": segment.segment_size_bytes,
        "age": format_age(now_ms - segment.event_timestamp_ms),
        "broker": segment.broker_id,
        "id": uuid_to_text(segment.segment_id.id),
        "topic_id": uuid_to_text(segment.topic_id_partition.topic_id),
        "max_timestamp": segment.max_timestamp_ms,
        "event_timestamp": segment.event_timestamp_ms,
        "txn_index_empty": segment.txn_index_empty,
    }


def format_age(duration_ms: int) -> str:
    """Return a time span in its two largest units."""
    seconds = max(duration_ms // 1000, 0)
    days, hours = divmod(seconds // 3600, 24)
    minutes = seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"


def print_result(result: CheckResult, *, as_json: bool) -> None:
    """Print faults, one per line with a remedy, and a summary."""
    if as_json:
        print_json(_as_json(result))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for fault in result.faults:
        console.print(fault_line(fault))
    for orphan in result.deleted:
        console.print(Text(f"deleted {orphan.name}"))
    if result.not_deleted is not None:
        console.print(Text(f"orphans were not deleted: {result.not_deleted}"))
    console.print(Text(summary(result)))


def fault_line(fault: TierFault) -> Text:
    """Return the line of a fault."""
    from rich.text import Text

    kind = (f"{fault.severity.name.lower()} {fault.kind.value}", _STYLES[fault.severity])
    return Text.assemble(kind, f" {fault.place}: {fault.detail}", (f" -> {fault.advice}", "dim"))


def summary(result: CheckResult) -> str:
    """Return one line about a whole check."""
    objects = "" if result.object_count is None else f", {result.object_count} objects"
    looked = (
        f"{result.segment_count} segments of {result.partition_count} partitions, {result.byte_count} bytes{objects}"
    )
    counts = Counter(fault.severity for fault in result.faults)
    bad = [f"{counts[each]} {each.name.lower()}" for each in (Severity.DAMAGE, Severity.LEAK) if counts[each]]
    notes = f" ({counts[Severity.NOTE]} notes)" if counts[Severity.NOTE] else ""
    return f"{looked}: {', '.join(bad) if bad else 'clean'}{notes}"


def _as_json(result: CheckResult) -> dict[str, Any]:
    return {
        "partitions": result.partition_count,
        "segments": result.segment_count,
        "bytes": result.byte_count,
        "objects": result.object_count,
        "faults": [_fault_as_json(fault) for fault in result.faults],
        "deleted": [orphan.name for orphan in result.deleted],
        "not_deleted": result.not_deleted,
        "clean": result.exit_code == 0,
    }


def _fault_as_json(fault: TierFault) -> dict[str, Any]:
    partition = fault.partition
    return {
        "kind": fault.kind.value,
        "severity": fault.severity.name.lower(),
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "segment": None if fault.segment_id is None else uuid_to_text(fault.segment_id.id),
        "object": fault.object_name,
        "detail": fault.detail,
        "advice": fault.advice,
    }
