"""Tables of plain Parquet files with manifests: the format that needs nothing but a place for files.

Readers ask `files()`: a directory listing may show files that were never committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.manifests import (
    DIRECTORY,
    FULL_EVERY,
    Manifest,
    ManifestState,
    decode_manifest,
    encode_manifest,
    fold,
    manifest_path,
    manifest_version,
    next_manifest,
)
from crabka.spark.lake.formats.offsets import Offsets, check_rewind, check_step
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import CommitInfo, Rewind, TableSpec, Vacuum
from crabka.spark.lake.formats.vacuuming import remove_unreferenced
from crabka.spark.lake.values.schemas import merge_schemas
from crabka.spark.plan.history.witnesses import Chain, Chains


class ParquetTable:
    """See TableFormat."""

    stores_partition_column = True

    def __init__(self, store: LakeStore, now_ms: Callable[[], int]) -> None:
        self.store = store
        self._now_ms = now_ms
        # Manifests never change, so those that were read once are kept.
        self._manifests: dict[int, Manifest] = {}
        self.refresh()

    @classmethod
    def open(cls, store: LakeStore, now_ms: Callable[[], int]) -> ParquetTable | None:
        """Return the table, None if there is none."""
        return cls(store, now_ms) if _versions(store) else None

    @classmethod
    def create(cls, store: LakeStore, spec: TableSpec, now_ms: Callable[[], int]) -> ParquetTable:
        """Make a table; return the one that another writer made in the meantime if so."""
        first = Manifest(
            version=0,
            timestamp_ms=now_ms(),
            operation="create",
            topic=spec.topic,
            topic_id=spec.topic_id,
            schema=spec.schema,
            partition_column=spec.partition_column,
            offsets={},
            full=True,
        )
        store.put_new(manifest_path(0), encode_manifest(first))
        return cls(store, now_ms)

    @property
    def spec(self) -> TableSpec:
        """What the table is now."""
        head = self._state.head
        return TableSpec(head.topic, head.topic_id, head.schema, head.partition_column)

    def refresh(self) -> None:
        """Look at the table as it is now. Raises LakeError if manifests are missing or damaged."""
        versions = _versions(self.store)
        if not versions:
            raise LakeError(f"There is no table at {self.store.url}")
        self._state = self._state_at(versions[-1])

    def committed_offsets(self) -> dict[int, int]:
        """Return the next offset of every partition."""
        return dict(self._state.head.offsets)

    def files(self) -> list[DataFile]:
        """Return the files that make up the table."""
        return list(self._state.files)

    def witnesses(self) -> dict[int, Chain]:
        """Return what is remembered of batches that were read, by partition."""
        return dict(self._state.head.witnesses)

    def commit(
        self, files: Sequence[DataFile], before: Offsets, after: Offsets, witnesses: Chains | None = None
    ) -> None:
        """Add files, move the offsets and set the witnesses in one step. Raises CommitConflictError."""
        check_step(before, after)
        self._require_offsets(before)
        kept = self._state.head.witnesses if witnesses is None else witnesses
        self._put(files, operation="sync", offsets=dict(after), witnesses=dict(kept))

    def rewind(self, change: Rewind) -> None:
        """Remove rows and move the offsets back in one step. Raises CommitConflictError."""
        check_rewind(change.before, change.after)
        self._require_offsets(change.before)
        self._put(
            change.kept,
            [file.path for file in change.removed],
            operation="rewind",
            offsets=dict(change.after),
            witnesses=dict(change.witnesses),
        )

    def evolve(self, schema: pa.Schema) -> None:
        """Add what the schema has beyond the table's. Raises CommitConflictError and SchemaConflictError."""
        merged = merge_schemas(self._state.head.schema, schema)
        if not merged.equals(self._state.head.schema):
            self._put((), operation="evolve", schema=merged)

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        """Put files with the same rows into the place of others, in one step. Raises CommitConflictError."""
        self._put(merged, [file.path for file in replaced], operation="compact")

    def vacuum(self, grace_ms: int, now_ms: int) -> Vacuum:
        """Forget versions older than the grace and remove files that nothing younger needs."""
        self.refresh()
        since_ms = now_ms - grace_ms
        head = self._state.head.version
        # A version is read until the next one takes its place.
        kept = [head]
        while kept[-1] > 0 and self._maybe_manifest(kept[-1]) is not None:
            if self._manifest(kept[-1]).timestamp_ms < since_ms or self._maybe_manifest(kept[-1] - 1) is None:
                break
            kept.append(kept[-1] - 1)
        oldest = self._state_at(kept[-1])
        referenced = {file.path for file in oldest.files}
        referenced.update(file.path for version in kept for file in self._manifest(version).added)
        needed = {manifest_path(version) for version in range(oldest.base_version, head + 1)}
        return remove_unreferenced(
            self.store,
            referenced | needed,
            since_ms,
            lambda path: path.startswith(f"{DIRECTORY}/"),
            live={file.path for file in self._state.files},
        )

    def history(self, count: int) -> list[CommitInfo]:
        """Return the last commits, the youngest first."""
        infos: list[CommitInfo] = []
        for version in range(self._state.head.version, max(-1, self._state.head.version - count), -1):
            manifest = self._maybe_manifest(version)
            if manifest is None:
                break
            infos.append(CommitInfo(str(version), manifest.timestamp_ms, manifest.operation))
        return infos

    def _require_offsets(self, before: Offsets) -> None:
        if self._state.head.offsets != dict(before):
            raise CommitConflictError(f"The offsets of {self.store.url} are not those that the commit builds on")

    def _put(self, added: Sequence[DataFile], removed: Iterable[str] = (), **changes: Any) -> None:
        self.store.require([file.path for file in added])
        version = self._state.head.version + 1
        is_full = version - self._state.base_version >= FULL_EVERY
        manifest = next_manifest(self._state, added, removed, is_full=is_full, timestamp_ms=self._now_ms(), **changes)
        versions = _versions(self.store)
        if not versions:
            raise LakeError(f"The table at {self.store.url} was removed meanwhile")
        # Old manifests are removed, so that their numbers would be free for a writer that slept for the whole grace.
        if versions[-1] != version - 1 or not self.store.put_new(manifest_path(version), encode_manifest(manifest)):
            raise CommitConflictError(f"Another writer committed version {version} of {self.store.url}")

    def _state_at(self, version: int) -> ManifestState:
        manifests = [self._manifest(version)]
        while not manifests[-1].full:
            manifests.append(self._manifest(manifests[-1].version - 1))
        return fold(manifests[::-1])

    def _manifest(self, version: int) -> Manifest:
        manifest = self._maybe_manifest(version)
        if manifest is None:
            raise LakeError(f"The manifest of version {version} of {self.store.url} is missing")
        return manifest

    def _maybe_manifest(self, version: int) -> Manifest | None:
        if version not in self._manifests:
            try:
                data = self.store.bucket.get(manifest_path(version))
            except ObjectMissingError:
                return None
            self._manifests[version] = decode_manifest(data)
        return self._manifests[version]


def _versions(store: LakeStore) -> list[int]:
    found = (manifest_version(stored.key) for stored in store.list_files(DIRECTORY))
    return sorted(version for version in found if version is not None)
