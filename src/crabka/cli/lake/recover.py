"""`crabka recover`: make a data dir for Crabka or Apache Kafka from a bucket alone.

`crabka.spark.jobs` reads the bucket and knows no brokers; `crabka.node` writes the directories; this module connects
them.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crabka.cli.lake.options import RequiredTier
from crabka.cli.node.process import load_config, parse_settings
from crabka.cli.node.serve import read_properties
from crabka.cli.options import AsJson
from crabka.cli.output import Column, Kind, Row, print_json, print_rows
from crabka.config.presets import one_node_properties
from crabka.errors import ConfigError
from crabka.ids import uuid_from_text, uuid_to_text

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.node.recovered_dir import RecoveredDir
    from crabka.remote.recovery import RecoverableTopic, RecoveryPlan

COLUMNS = (
    "topic",
    Column("id", yields=1),
    "partition",
    "start",
    "end",
    "segments",
    Column("bytes", "size", kind=Kind.SIZE),
    "gaps",
)


def recover(
    *,
    tier: RequiredTier,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", help="A new directory, for `crabka up`.", show_default=False)
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="server.properties of the new node.", show_default=False),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="A topic; all if none is named.", show_default=False)
    ] = None,
    topic_id: Annotated[
        list[str] | None,
        typer.Option(
            "--topic-id", metavar="TOPIC=ID", help="Id of the topic, if two have the same name.", show_default=False
        ),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partitions",
            metavar="TOPIC=N",
            help="Number of partitions, if more than in the tier.",
            show_default=False,
        ),
    ] = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", help="22 characters; default is a new one.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what can be recovered.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the data dir of a node from the objects of a tier: topics, offsets and producers as they were."""
    from crabka.spark.jobs.recover import plan_recovery

    server = None if dry_run else _server(data_dir, config)
    plan = plan_recovery(
        tier if "://" in tier else str(Path(tier).resolve()),
        wants=_chooser(topic),
        topic_ids=_ids(topic_id),
        partition_counts=_counts(partitions),
    )
    _require_found(plan, topic or [])
    written = None if server is None else _write(server, plan, cluster_id)
    rows = [row for found in plan.topics for row in _rows(found)]
    notes = _notes(plan, written)
    if as_json:
        print_json({"written": _as_json(written), "partitions": rows, "notes": notes})
        return
    print_rows(COLUMNS, rows, as_json=False)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if written is not None:
        print(f"wrote {', '.join(written.log_dirs)} for cluster {written.cluster_id}")


def _server(data_dir: str | None, config: str | None) -> ServerConfig:
    if (data_dir is None) == (config is None):
        raise ConfigError("name the directory of the new node: --data-dir DIRECTORY or --config FILE")
    if config is not None:
        return load_config(read_properties(config))
    return load_config(one_node_properties(str(data_dir), "127.0.0.1", 0))


def _write(server: ServerConfig, plan: RecoveryPlan, cluster_id: str | None) -> RecoveredDir:
    from crabka.node.recovered_dir import write_recovered_dir
    from crabka.runtime import real_runtime

    if cluster_id is not None:
        _id("--cluster-id", cluster_id)
    runtime = real_runtime()
    try:
        return write_recovered_dir(runtime, server, plan, cluster_id=cluster_id)
    finally:
        runtime.threads.close()


def _chooser(topics: list[str] | None) -> Callable[[str], bool]:
    return (lambda _topic: True) if not topics else set(topics).__contains__


def _ids(texts: list[str] | None) -> dict[str, uuid.UUID]:
    return {name: _id("--topic-id", text) for name, text in parse_settings(texts or (), "--topic-id").items()}


def _id(option: str, text: str) -> uuid.UUID:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from error


def _counts(texts: list[str] | None) -> dict[str, int]:
    counts = parse_settings(texts or (), "--partitions")
    for name, count in counts.items():
        if not count.isdecimal():
            raise ConfigError(f"--partitions {name}={count}: not a number of partitions")
    return {name: int(count) for name, count in counts.items()}


def _require_found(plan: RecoveryPlan, wanted: list[str]) -> None:
    found = {topic.name for topic in plan.topics}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ConfigError(f"the tier has no segment of topic {', '.join(missing)}")
    if not found:
        raise ConfigError("the tier has no segment that could be recovered")


def _rows(topic: RecoverableTopic) -> list[Row]:
    rows: list[Row] = []
    for index in range(topic.partition_count):
        found = topic.partitions.get(index)
        rows.append(
            {
                "topic": topic.name,
                "id": uuid_to_text(topic.topic_id),
                "partition": index,
                "start": found.log_start_offset if found else 0,
                "end": found.end_offset if found else 0,
                "segments": len(found.segments) if found else 0,
                "bytes": found.size_bytes if found else 0,
                "gaps": [f"{first}..{end - 1}" for first, end in found.gaps] if found else [],
            }
        )
    return rows


def _notes(plan: RecoveryPlan, written: RecoveredDir | None) -> list[str]:
    notes = [f"skipped: {reason}" for reason in plan.ignored]
    for topic in plan.topics:
        if topic.missing_partitions:
            places = ", ".join(map(str, topic.missing_partitions))
            notes.append(f"{topic.name} has no records in the tier for partitions {places}: they start empty")
        notes += [
            f"{found.topic_id_partition.topic_partition} lacks offsets {first}..{end - 1}: consumers skip them"
            for found in topic.partitions.values()
            for first, end in found.gaps
        ]
    if written is not None:
        notes.append("all topics keep their records for ever: restore retention.ms and retention.bytes")
        if written.aborted_transactions:
            notes.append(f"{written.aborted_transactions} transactions were open at the end and are aborted")
    return notes


def _as_json(written: RecoveredDir | None) -> dict[str, Any] | None:
    if written is None:
        return None
    return {
        "cluster_id": written.cluster_id,
        "log_dirs": list(written.log_dirs),
        "partitions": written.partition_count,
        "segments": written.segment_count,
        "aborted_transactions": written.aborted_transactions,
    }
