"""How segments and faults of a tier are printed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from crabka.cli.output import Column, Row, print_json
from crabka.cli.program import as_typed
from crabka.cli.units import format_size
from crabka.ids import uuid_to_text
from crabka.remote.scrub import Severity, TierFault

if TYPE_CHECKING:
    from rich.text import Text

    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote_topic.tier_check import CheckResult

SEGMENT_COLUMNS: Final = (
    "topic",
    "partition",
    "start",
    "end",
    Column("epochs", yields=3),
    "state",
    "size_bytes",
    Column("age_ms", yields=1),
    Column("broker", yields=2),
    Column("id", yields=4),
)

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
        "age_ms": max(now_ms - segment.event_timestamp_ms, 0),
        "broker": segment.broker_id,
        "id": uuid_to_text(segment.segment_id.id),
        "topic_id": uuid_to_text(segment.topic_id_partition.topic_id),
        "max_timestamp": segment.max_timestamp_ms,
        "event_timestamp": segment.event_timestamp_ms,
        "txn_index_empty": segment.txn_index_empty,
    }


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
    return Text.assemble(kind, f" {fault.place}: {fault.detail}", (f" -> {as_typed(fault.advice)}", "dim"))


def summary(result: CheckResult) -> str:
    """Return one line about a whole check."""
    objects = "" if result.object_count is None else f", {result.object_count} objects"
    size = format_size(result.byte_count)
    looked = f"{result.segment_count} segments of {result.partition_count} partitions, {size}{objects}"
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
        "advice": as_typed(fault.advice),
    }
