"""Delta tables, by deltalake.

The next offset of every partition is the version of an application in Delta's transaction log. A commit is tried once,
on the state that was read. deltalake's own compaction is not used: it retries regardless of the settings, and two of
them at the same time both add their copy of the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.delta_actions import add_action, file_of, interval_ms, remove_action
from crabka.spark.lake.formats.offsets import (
    Offsets,
    app_id,
    check_rewind,
    check_step,
    decode_witnesses,
    encode_witnesses,
)
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import CommitInfo, Rewind, TableSpec, Vacuum
from crabka.spark.lake.formats.vacuuming import remove_unreferenced
from crabka.spark.lake.values.schemas import added_fields, merge_schemas, plain_schema
from crabka.spark.plan.history.witnesses import Chain, Chains

TOPIC_KEY = "crabka.topic"
TOPIC_ID_KEY = "crabka.topic.id"
WITNESSES_KEY = "crabka.witnesses"
# How many commits are looked at for witnesses, more if there are none: those of others do not carry them on.
_WITNESS_COMMITS = (1, 10, 100)
# How long the log remembers what was removed from the table; checkpoints drop what is older.
RETENTION_KEY = "delta.deletedFileRetentionDuration"
_RETENTION = "interval 30 days"
_DEFAULT_RETENTION = "interval 7 days"
_HOUR_MS = 3_600_000


class DeltaLakeTable:
    """See TableFormat."""

    stores_partition_column = False

    def __init__(self, store: LakeStore, now_ms: Callable[[], int]) -> None:
        self.store = store
        self._now_ms = now_ms
        self.refresh()

    @classmethod
    def open(cls, store: LakeStore, now_ms: Callable[[], int]) -> DeltaLakeTable | None:
        """Return the table, None if there is none."""
        with _delta(store):
            found = DeltaTable.is_deltatable(_uri(store), store.delta_options)
        return cls(store, now_ms) if found else None

    @classmethod
    def create(cls, store: LakeStore, spec: TableSpec, now_ms: Callable[[], int]) -> DeltaLakeTable:
        """Make a table; return the one that another writer made in the meantime if so."""
        try:
            with _delta(store):
                DeltaTable.create(
                    _uri(store),
                    schema=spec.schema,
                    mode="error",
                    partition_by=[spec.partition_column] if spec.partition_column else None,
                    configuration={TOPIC_KEY: spec.topic, TOPIC_ID_KEY: spec.topic_id, RETENTION_KEY: _RETENTION},
                    storage_options=store.delta_options,
                    raise_if_key_not_exists=False,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        except LakeError:
            existing = cls.open(store, now_ms)
            if existing is None:
                raise
            return existing
        store.sync(_log_entry(0))
        return cls(store, now_ms)

    @property
    def spec(self) -> TableSpec:
        """What the table is now."""
        metadata = self._table.metadata()
        column = metadata.partition_columns[0] if metadata.partition_columns else None
        topic_id = metadata.configuration.get(TOPIC_ID_KEY)
        if topic_id is None:
            raise LakeError(f"The Delta table {self.store.url} was not made by crabka lake sync")
        return TableSpec(metadata.configuration.get(TOPIC_KEY, ""), topic_id, self._schema(), column)

    def refresh(self) -> None:
        """Look at the table as it is now."""
        with _delta(self.store):
            self._table = DeltaTable(_uri(self.store), storage_options=self.store.delta_options)

    def committed_offsets(self) -> dict[int, int]:
        """Return the next offset of every partition; commits name all of them from 0 on."""
        topic_id = self.spec.topic_id
        offsets: dict[int, int] = {}
        with _delta(self.store):
            while (offset := self._table.transaction_version(app_id(topic_id, len(offsets)))) is not None:
                offsets[len(offsets)] = offset
        return offsets

    def files(self) -> list[DataFile]:
        """Return the files that make up the table."""
        column = self.spec.partition_column
        with _delta(self.store):
            actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [file_of(action, column) for action in actions]

    def witnesses(self) -> dict[int, Chain]:
        """Return what is remembered of batches that were read: by the last commit that says so."""
        for count in _WITNESS_COMMITS:
            with _delta(self.store):
                entries = self._table.history(count)
            found = [entry[WITNESSES_KEY] for entry in entries if WITNESSES_KEY in entry]
            if found or len(entries) < count:
                return decode_witnesses(found[0] if found else None)
        return {}

    def commit(
        self, files: Sequence[DataFile], before: Offsets, after: Offsets, witnesses: Chains | None = None
    ) -> None:
        """Add files, move the offsets and set the witnesses in one step. Raises CommitConflictError."""
        check_step(before, after)
        self._require_offsets(before)
        self.store.require([file.path for file in files])
        column, now_ms = self.spec.partition_column, self._now_ms()
        self._write(
            [add_action(file, column, now_ms, is_new=True) for file in files],
            self._properties(after, self.witnesses() if witnesses is None else witnesses),
        )

    def rewind(self, change: Rewind) -> None:
        """Remove rows and move the offsets back in one step. Raises CommitConflictError."""
        check_rewind(change.before, change.after)
        self._require_offsets(change.before)
        self.store.require([file.path for file in change.kept])
        column, now_ms = self.spec.partition_column, self._now_ms()
        self._write(
            [
                *(remove_action(file, column, now_ms, is_lost=True) for file in change.removed),
                *(add_action(file, column, now_ms, is_new=True) for file in change.kept),
            ],
            self._properties(change.after, change.witnesses, {"crabka.operation": "rewind"}),
        )

    def evolve(self, schema: pa.Schema) -> None:
        """Add what the schema has beyond the table's. Raises CommitConflictError and SchemaConflictError."""
        current = self._schema()
        added = added_fields(current, merge_schemas(current, schema))
        if added:
            with _delta(self.store):
                self._table.alter.add_columns(
                    list(Schema.from_arrow(pa.schema(added)).fields),
                    commit_properties=self._properties({}, self.witnesses()),
                )
            self._sync(self._table.version())

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        """Put files with the same rows into the place of others, in one step. Raises CommitConflictError."""
        self.store.require([file.path for file in merged])
        column, now_ms = self.spec.partition_column, self._now_ms()
        # The same rows in other files: readers that follow changes of the table see none.
        self._write(
            [
                *(remove_action(file, column, now_ms) for file in replaced),
                *(add_action(file, column, now_ms, is_new=False) for file in merged),
            ],
            self._properties({}, self.witnesses(), {"crabka.operation": "compact"}),
        )

    def vacuum(self, grace_ms: int, now_ms: int) -> Vacuum:
        """Remove files that the table has not had for the grace; what readers of a younger version need stays."""
        self.refresh()
        self._require_remembered(grace_ms)
        with _delta(self.store):
            recent = set(self._tombstones(0)) - set(self._tombstones(-(-grace_ms // _HOUR_MS)))
        # Delta's log holds encoded paths; whichever form the library returns, both are safe.
        referenced = {form for path in recent for form in (path, unquote(path))}
        live = {file.path for file in self.files()}
        return remove_unreferenced(self.store, referenced, now_ms - grace_ms, live=live)

    def history(self, count: int) -> list[CommitInfo]:
        """Return the last commits, the youngest first."""
        with _delta(self.store):
            entries = self._table.history(count)
        return [
            CommitInfo(str(entry["version"]), entry["timestamp"], str(entry.get("operation", "")).lower())
            for entry in entries
        ]

    def _schema(self) -> pa.Schema:
        return plain_schema(pa.schema(self._table.schema().to_arrow()))

    def _require_offsets(self, before: Offsets) -> None:
        if self.committed_offsets() != dict(before):
            raise CommitConflictError(f"The offsets of {self.store.url} are not those that the commit builds on")

    def _properties(
        self, offsets: Offsets, witnesses: Chains, more: Mapping[str, str] = MappingProxyType({})
    ) -> CommitProperties:
        """Return what a commit says beside its files: no retry, the next offsets, and what is remembered of batches.

        Delta keeps only numbers for applications, so every commit of Crabka carries the witnesses.
        """
        topic_id = self.spec.topic_id
        return CommitProperties(
            max_commit_retries=0,
            app_transactions=[
                Transaction(app_id(topic_id, partition), offset) for partition, offset in offsets.items()
            ],
            custom_metadata={WITNESSES_KEY: encode_witnesses(witnesses)} | dict(more),
        )

    def _write(self, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> None:
        column = self.spec.partition_column
        with _delta(self.store):
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=[column] if column else None,
                commit_properties=properties,
            )
        # The table is still the one that was committed to.
        self._sync(self._table.version() + 1)

    def _require_remembered(self, grace_ms: int) -> None:
        """Raise LakeError for a grace that reaches back further than the log remembers what it was then."""
        retention = self._table.metadata().configuration.get(RETENTION_KEY, _DEFAULT_RETENTION)
        if grace_ms > interval_ms(retention):
            raise LakeError(
                f"The grace is longer than {RETENTION_KEY} of the Delta table {self.store.url}, {retention}: "
                "files that were replaced before that are no longer known; shorten the one or lengthen the other"
            )

    def _sync(self, version: int) -> None:
        """Make durable what deltalake wrote for a commit; for some of them it writes checkpoints, too."""
        self.store.sync(_log_entry(version))
        checkpoint = f"_delta_log/{version:020d}.checkpoint.parquet"
        if self.store.local_directory is not None and os.path.exists(f"{self.store.local_directory}/{checkpoint}"):
            self.store.sync(checkpoint)
            self.store.sync("_delta_log/_last_checkpoint")

    def _tombstones(self, hours: int) -> list[str]:
        return self._table.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False)


def _uri(store: LakeStore) -> str:
    return store.local_directory or store.url


def _log_entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


@contextmanager
def _delta(store: LakeStore) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise CommitConflictError(f"Another writer committed to {store.url}: {error}") from error
    except LakeError:
        raise
    except Exception as error:
        # The library raises many classes, also Exception itself, some with a location in the text.
        reason = " ".join(str(error).split()).partition(" 0: ")[0]
        raise LakeError(f"The Delta table {store.url}: {reason}") from error
