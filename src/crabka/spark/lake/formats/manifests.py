"""The manifests of Parquet tables: `_crabka/<20 digits>.json`, one per version, made of what each version changes.

Pure: text in, text out. A manifest is created only if there is none of its number, which decides between writers.
Most hold what they add and remove; every so often one holds the whole list, where reading back may stop.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.plan.history.witnesses import Chains, chains_from_json, chains_to_json

DIRECTORY = "_crabka"
FULL_EVERY = 50
_FORMAT = 1
_DIGITS = 20
_CARRIED = ("topic", "topic_id", "schema", "partition_column", "offsets", "witnesses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a table: its state but for the files, and the files that it changes."""

    version: int
    timestamp_ms: int
    operation: str
    topic: str
    topic_id: str
    schema: pa.Schema
    partition_column: str | None
    offsets: dict[int, int]
    # With `full` set these are all files of the table, else those beyond the version before.
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    full: bool = False
    # What is remembered of batches that were read, by partition.
    witnesses: Chains = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The table at one version."""

    head: Manifest
    files: tuple[DataFile, ...]
    # The oldest manifest that is needed to know the files.
    base_version: int = field(default=0)


def manifest_path(version: int) -> str:
    """Return where the manifest of a version is."""
    return f"{DIRECTORY}/{version:0{_DIGITS}d}.json"


def manifest_version(path: str) -> int | None:
    """Return the version of the manifest at a path, None if it is something else."""
    directory, _, name = path.rpartition("/")
    stem, dot, suffix = name.partition(".")
    if directory != DIRECTORY or suffix != "json" or len(stem) != _DIGITS or not stem.isdecimal() or not dot:
        return None
    return int(stem)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as JSON."""
    return json.dumps(
        {
            "format": _FORMAT,
            "version": manifest.version,
            "timestamp_ms": manifest.timestamp_ms,
            "operation": manifest.operation,
            "topic": manifest.topic,
            "topic_id": manifest.topic_id,
            "columns": [{"name": column.name, "type": str(column.type)} for column in manifest.schema],
            "arrow_schema": base64.b64encode(manifest.schema.serialize().to_pybytes()).decode("ascii"),
            "partition_column": manifest.partition_column,
            "offsets": {str(partition): manifest.offsets[partition] for partition in sorted(manifest.offsets)},
            "witnesses": chains_to_json(manifest.witnesses),
            "full": manifest.full,
            "added": [file.to_json() for file in manifest.added],
            "removed": list(manifest.removed),
        },
        ensure_ascii=False,
    ).encode()


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest. Raises LakeError."""
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields["format"] != _FORMAT:
            raise LakeError(f"A manifest has the format {fields['format']}; this Crabka knows {_FORMAT}")
        return Manifest(
            version=fields["version"],
            timestamp_ms=fields["timestamp_ms"],
            operation=fields["operation"],
            topic=fields["topic"],
            topic_id=fields["topic_id"],
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["arrow_schema"]))),
            partition_column=fields["partition_column"],
            offsets={int(partition): offset for partition, offset in fields["offsets"].items()},
            full=fields["full"],
            added=tuple(DataFile.from_json(file) for file in fields["added"]),
            removed=tuple(fields["removed"]),
            # Manifests of earlier versions have none.
            witnesses=chains_from_json(fields.get("witnesses", {})),
        )
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError, pa.ArrowInvalid) as error:
        raise LakeError(f"A manifest cannot be read: {error!r}") from error


def fold(manifests: Sequence[Manifest]) -> ManifestState:
    """Return the state after consecutive manifests, the first of which is full. Raises LakeError."""
    if not manifests or not manifests[0].full:
        raise LakeError("The manifests of the table do not begin with a full one")
    files: dict[str, DataFile] = {}
    for number, manifest in enumerate(manifests, start=manifests[0].version):
        if manifest.version != number:
            raise LakeError(f"The manifest of version {number} is missing")
        if manifest.full:
            files = {}
        for path in manifest.removed:
            files.pop(path, None)
        files |= {file.path: file for file in manifest.added}
    base = max(manifest.version for manifest in manifests if manifest.full)
    return ManifestState(manifests[-1], tuple(files.values()), base)


def next_manifest(
    state: ManifestState, added: Iterable[DataFile], removed: Iterable[str], *, is_full: bool, **changes: Any
) -> Manifest:
    """Return the manifest after a state; `changes` are fields that differ. Raises LakeError for a file not there."""
    head, added, removed = state.head, tuple(added), tuple(removed)
    live = {file.path: file for file in state.files}
    missing = [path for path in removed if path not in live]
    if missing:
        raise LakeError(f"{missing[0]} is to be removed from the table but not in it")
    if is_full:
        kept = tuple(file for path, file in live.items() if path not in set(removed))
        added, removed = kept + added, ()
    fields = {name: getattr(head, name) for name in _CARRIED}
    return Manifest(**(fields | changes), version=head.version + 1, added=added, removed=removed, full=is_full)
