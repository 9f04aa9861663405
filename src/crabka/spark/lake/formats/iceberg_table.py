"""Iceberg tables, by pyiceberg.

The next offsets are a property of the table, set in the transaction that adds the files. pyiceberg must not retry: a
retry would add the files on top of what another writer committed, offsets and all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile as IcebergFile
from sqlalchemy.exc import SQLAlchemyError

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.iceberg_catalog import NAMESPACE
from crabka.spark.lake.formats.iceberg_files import data_file
from crabka.spark.lake.formats.iceberg_names import map_names
from crabka.spark.lake.formats.offsets import (
    Offsets,
    check_rewind,
    check_step,
    decode_offsets,
    decode_witnesses,
    encode_offsets,
    encode_witnesses,
)
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import CommitInfo, Rewind, TableSpec, Vacuum
from crabka.spark.lake.formats.vacuuming import remove_unreferenced
from crabka.spark.lake.values.schemas import TIMESTAMP, merge_schemas, plain_schema
from crabka.spark.plan.history.witnesses import Chain, Chains

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

OFFSETS_KEY = "crabka.offsets"
WITNESSES_KEY = "crabka.witnesses"
TOPIC_KEY = "crabka.topic"
TOPIC_ID_KEY = "crabka.topic.id"
NO_RETRIES = {"commit.retry.num-retries": "0"}
# Every commit writes all metadata. Those of the last hundred commits stay, more than any reader needs.
_FEW_METADATA = {"write.metadata.delete-after-commit.enabled": "true"}
_WITHOUT_BOUNDS_OF_TIME = {f"write.metadata.metrics.column.{TIMESTAMP}": "counts"}
_TRIES = 20
# Errors of stores, files and catalogs; those of pyiceberg have no common class.
_TROUBLE: tuple[type[Exception], ...] = (
    ValueError,
    OSError,
    SQLAlchemyError,
    *(each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, Exception)),
)


class IcebergLakeTable:
    """See TableFormat."""

    stores_partition_column = True

    def __init__(self, store: LakeStore, catalog: Catalog) -> None:
        self.store = store
        self._catalog = catalog
        self.refresh()

    @classmethod
    def open(cls, store: LakeStore, catalog: Catalog) -> IcebergLakeTable | None:
        """Return the table, None if there is none."""
        with _iceberg(store):
            found = catalog.table_exists(_identifier(store))
        return cls(store, catalog) if found else None

    @classmethod
    def create(cls, store: LakeStore, spec: TableSpec, catalog: Catalog) -> IcebergLakeTable:
        """Make a table; return the one that another writer made in the meantime if so."""
        properties = (
            {TOPIC_KEY: spec.topic, TOPIC_ID_KEY: spec.topic_id, OFFSETS_KEY: "{}"} | NO_RETRIES | _FEW_METADATA
        )
        with _iceberg(store):
            # Catalogs report a race in errors of their own, so what counts is what is there afterwards.
            try:
                catalog.create_namespace_if_not_exists(NAMESPACE)
            except Exception:
                if not catalog.namespace_exists(NAMESPACE):
                    raise
            try:
                _make(catalog, store, spec, properties)
            except Exception:
                if not catalog.table_exists(_identifier(store)):
                    raise
        table = cls(store, catalog)
        table._sync()
        return table

    @property
    def spec(self) -> TableSpec:
        """What the table is now."""
        properties, fields = self._table.properties, self._table.spec().fields
        topic_id = properties.get(TOPIC_ID_KEY)
        if topic_id is None:
            raise LakeError(f"The Iceberg table {self.store.url} was not made by crabka lake sync")
        return TableSpec(properties.get(TOPIC_KEY, ""), topic_id, self._schema(), fields[0].name if fields else None)

    def refresh(self) -> None:
        """Look at the table as it is now."""
        with _iceberg(self.store):
            self._table = self._catalog.load_table(_identifier(self.store))
        if not self.store.is_at(self._table.location()):
            # A copy of a lake, or one that is mounted elsewhere: its files would be added to, or removed from, another.
            raise LakeError(
                f"The Iceberg table {self.store.url} is at {self._table.location()} by its catalog: use that address"
            )

    def committed_offsets(self) -> dict[int, int]:
        """Return the next offset of every partition."""
        return decode_offsets(self._table.properties.get(OFFSETS_KEY, "{}"))

    def files(self) -> list[DataFile]:
        """Return the files that make up the table."""
        schema, partitioning = self._table.schema(), self._table.spec()
        return [data_file(file, self._relative(file.file_path), schema, partitioning) for file in self._live()]

    def witnesses(self) -> dict[int, Chain]:
        """Return what is remembered of batches that were read, by partition."""
        return decode_witnesses(self._table.properties.get(WITNESSES_KEY))

    def commit(
        self, files: Sequence[DataFile], before: Offsets, after: Offsets, witnesses: Chains | None = None
    ) -> None:
        """Add files, move the offsets and set the witnesses in one step. Raises CommitConflictError."""
        check_step(before, after)
        self._require_offsets(before)
        properties = {OFFSETS_KEY: encode_offsets(after)} | NO_RETRIES
        if witnesses is not None:
            properties[WITNESSES_KEY] = encode_witnesses(witnesses)
        with _iceberg(self.store):
            try:
                self._append(files, properties)
            except OverflowError:
                # pyiceberg fails for timestamps outside of its calendar, which some producers send.
                self._append(files, properties | _WITHOUT_BOUNDS_OF_TIME)
        self._sync()

    def rewind(self, change: Rewind) -> None:
        """Remove rows and move the offsets back in one step. Raises CommitConflictError."""
        check_rewind(change.before, change.after)
        self._require_offsets(change.before)
        reached = {OFFSETS_KEY: encode_offsets(change.after)}
        properties = reached | {WITNESSES_KEY: encode_witnesses(change.witnesses)} | NO_RETRIES
        self._exchange(change.removed, change.kept, reached | {"crabka.operation": "rewind"}, properties)

    def evolve(self, schema: pa.Schema) -> None:
        """Add what the schema has beyond the table's. Raises CommitConflictError and SchemaConflictError."""
        current = self._schema()
        merged = merge_schemas(current, schema)
        if merged.equals(current):
            return
        with _iceberg(self.store), self._table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(merged)
            map_names(transaction)
        self._sync()

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        """Put files with the same rows into the place of others, in one step. Raises CommitConflictError."""
        self._exchange(replaced, merged, {"crabka.operation": "compact"}, {})

    def vacuum(self, grace_ms: int, now_ms: int) -> Vacuum:
        """Expire snapshots older than the grace and remove files that no younger one needs."""
        since_ms = now_ms - grace_ms
        self._expire(since_ms)
        with _iceberg(self.store):
            referenced = self._referenced()
        live = {file.path for file in self.files()}
        return remove_unreferenced(
            self.store,
            referenced,
            since_ms,
            lambda path: path.startswith("metadata/") and path.endswith((".avro", ".metadata.json")),
            live=live,
        )

    def history(self, count: int) -> list[CommitInfo]:
        """Return the last commits, the youngest first."""
        snapshots = sorted(self._table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
        return [
            CommitInfo(
                str(snapshot.snapshot_id),
                snapshot.timestamp_ms,
                snapshot.summary.operation.value if snapshot.summary else "",
            )
            for snapshot in snapshots[:count]
        ]

    def _live(self) -> list[IcebergFile]:
        with _iceberg(self.store):
            return [task.file for task in self._table.scan().plan_files()]

    def _exchange(
        self,
        removed: Sequence[DataFile],
        added: Sequence[DataFile],
        snapshot_properties: dict[str, str],
        properties: dict[str, str],
    ) -> None:
        """Remove files, add others and set properties in one step, which asks for the snapshot that was looked at."""
        self.store.require([file.path for file in added])
        paths = [self._absolute(file) for file in added]
        live = {self._relative(file.file_path): file for file in self._live()}
        with _iceberg(self.store), self._table.transaction() as transaction:
            if properties:
                transaction.set_properties(properties)
            map_names(transaction)
            update = transaction.update_snapshot(snapshot_properties=snapshot_properties)
            with update.overwrite() if removed else update.fast_append() as producer:
                for old in removed:
                    producer.delete_data_file(live[old.path])
                for new in parquet_files_to_data_files(self._table.io, transaction.table_metadata, iter(paths)):
                    producer.append_data_file(new)
        self._sync()

    def _require_offsets(self, before: Offsets) -> None:
        if self.committed_offsets() != dict(before):
            raise CommitConflictError(f"The offsets of {self.store.url} are not those that the commit builds on")

    def _append(self, files: Sequence[DataFile], properties: dict[str, str]) -> None:
        reached = {OFFSETS_KEY: properties[OFFSETS_KEY]}
        with self._table.transaction() as transaction:
            transaction.set_properties(properties)
            map_names(transaction)
            if files:
                paths = [self._absolute(file) for file in files]
                transaction.add_files(paths, snapshot_properties=reached, check_duplicate_files=False)
            else:
                # Properties alone would be written over whatever is there: only a snapshot asks for the one before.
                with transaction.update_snapshot(snapshot_properties=reached).fast_append():
                    pass

    def _sync(self) -> None:
        """Make what pyiceberg wrote for the last change durable."""
        if self.store.local_directory is None:
            return
        written = [self._table.metadata_location]
        snapshot = self._table.current_snapshot()
        if snapshot is not None:
            with _iceberg(self.store):
                manifests = snapshot.manifests(self._table.io)
            written.append(snapshot.manifest_list)
            written += [each.manifest_path for each in manifests if each.added_snapshot_id == snapshot.snapshot_id]
        for location in written:
            self.store.sync(self._relative(location))

    def _schema(self) -> pa.Schema:
        return plain_schema(self._table.schema().as_arrow())

    def _expire(self, since_ms: int) -> None:
        """Forget snapshots that no reader opened since a moment, whatever is committed meanwhile."""
        for attempt in range(1, _TRIES + 1):
            self.refresh()
            old = self._superseded(since_ms)
            if not old:
                return
            try:
                with _iceberg(self.store):
                    self._table.maintenance.expire_snapshots().by_ids(old).commit()
            except CommitConflictError:
                if attempt == _TRIES:
                    raise
        self.refresh()

    def _superseded(self, since_ms: int) -> list[int]:
        """Return the snapshots that were replaced before a moment, but for those that branches and tags keep."""
        kept = {reference.snapshot_id for reference in self._table.metadata.refs.values()}
        ordered = sorted(self._table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
        replaced = [old.snapshot_id for old, new in pairwise(ordered) if new.timestamp_ms < since_ms]
        return [snapshot_id for snapshot_id in replaced if snapshot_id not in kept]

    def _referenced(self) -> set[str]:
        referenced = {self._table.metadata_location}
        referenced.update(entry.metadata_file for entry in self._table.metadata.metadata_log)
        for snapshot in self._table.snapshots():
            referenced.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self._table.io):
                referenced.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
                referenced.update(entry.data_file.file_path for entry in entries)
        return {self._relative(location) for location in referenced}

    def _absolute(self, file: DataFile) -> str:
        """Return the address of a file as the table spells it, which may not be how the root was given."""
        return f"{self._table.location().rstrip('/')}/{file.path}"

    def _relative(self, location: str) -> str:
        own = self._table.location().rstrip("/") + "/"
        return location[len(own) :] if location.startswith(own) else self.store.relative(location)


def _make(catalog: Catalog, store: LakeStore, spec: TableSpec, properties: dict[str, str]) -> None:
    with catalog.create_table_transaction(
        _identifier(store), spec.schema, location=store.url, properties=properties
    ) as transaction:
        if spec.partition_column is not None:
            with transaction.update_spec() as update:
                update.add_identity(spec.partition_column)
        map_names(transaction)


def _identifier(store: LakeStore) -> tuple[str, str]:
    return NAMESPACE, store.name


@contextmanager
def _iceberg(store: LakeStore) -> Iterator[None]:
    try:
        yield
    except CommitFailedException as error:
        raise CommitConflictError(f"Another writer committed to {store.url}: {error}") from error
    except ValidationException as error:
        raise CommitConflictError(f"Another writer changed the files of {store.url}: {error}") from error
    except NoSuchTableError as error:
        raise LakeError(f"There is no table at {store.url}") from error
    except _TROUBLE as error:
        raise LakeError(f"The Iceberg table {store.url}: {' '.join(str(error).split())}") from error
