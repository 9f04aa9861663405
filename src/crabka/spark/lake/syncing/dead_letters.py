"""The table `<table>_dlq`: rows whose values could not be read, with the value as it was and the reason.

It is committed before the table itself, so that no row is ever in neither. A run that dies between the two leaves rows
here that the table's offsets do not cover; the next run reads them again and must not add them again. Which are there
is looked up by offset: another schema may judge the same rows in another way.
"""

from __future__ import annotations

from collections.abc import Sequence

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.offsets import Offsets
from crabka.spark.lake.formats.parquet_reading import read_batches
from crabka.spark.lake.formats.table import TableFormat, TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.commits import CommitOutcome, commit_once
from crabka.spark.lake.values.schemas import OFFSET, PARTITION, dead_letter_schema

SUFFIX = "_dlq"


def is_dead_letters(name: str, spec: TableSpec) -> bool:
    """Return whether a table is one of dead letters."""
    return name.endswith(SUFFIX) and spec.schema.equals(dead_letter_schema())


class DeadLetters:
    """The dead letters of the topic that one table follows, as they are when this is made.

    A table of their name that is not theirs is left alone. It is reported with the first dead letter: many have none.
    """

    def __init__(self, lake: Lake, table_name: str, topic: str, topic_id: str) -> None:
        self._lake = lake
        self._topic = topic
        self._topic_id = topic_id
        self.name = table_name + SUFFIX
        self._table: TableFormat | None = lake.open(self.name)
        self._trouble = self._trouble_of(self._table)
        if self._trouble is not None:
            self._table = None
        self._offsets = {} if self._table is None else self._table.committed_offsets()

    def ahead_of(self, committed: Offsets) -> dict[int, set[int]]:
        """Return the offsets of rows here that a table with these offsets does not cover, by partition."""
        ahead = {
            partition: committed.get(partition, 0)
            for partition, offset in self._offsets.items()
            if offset > committed.get(partition, 0)
        }
        found: dict[int, set[int]] = {}
        for file in self._table.files() if self._table is not None and ahead else ():
            if file.offsets is not None and file.offsets.greatest < min(ahead.values()):
                continue
            for batch in read_batches(self._lake.store(self.name), file.path, [PARTITION, OFFSET]):
                places = zip(batch.column(PARTITION).to_pylist(), batch.column(OFFSET).to_pylist(), strict=True)
                for partition, offset in places:
                    if partition in ahead and offset >= ahead[partition]:
                        found.setdefault(partition, set()).add(offset)
        return found

    def commit(self, files: Sequence[DataFile], after: Offsets) -> CommitOutcome:
        """Add rows that were compared with the present ones; after any other commit they must be compared again.

        Raises LakeError if the table with the name is of another topic, or is not one of dead letters.
        """
        if not files:
            return CommitOutcome.COMMITTED
        if self._trouble is not None:
            raise LakeError(self._trouble)
        if self._table is None:
            spec = TableSpec(self._topic, self._topic_id, dead_letter_schema())
            created = self._lake.create(self.name, spec)
            trouble = self._trouble_of(created)
            if trouble is not None:
                raise LakeError(trouble)
            self._table = created
        reached = {partition: max(self._offsets.get(partition, 0), offset) for partition, offset in after.items()}
        return commit_once(self._table, files, self._offsets, reached, retry=False)

    def _trouble_of(self, table: TableFormat | None) -> str | None:
        """Return why a table is not ours: offsets of another topic would say that rows of this one are there."""
        if table is None:
            return None
        spec = table.spec
        if not is_dead_letters(self.name, spec):
            return (
                f"The table {self.name} is of the topic {spec.topic}, but dead letters of {self._topic} need its name; "
                "move it away or choose another name for one of both tables"
            )
        if spec.topic_id != self._topic_id:
            return (
                f"The table {self.name} has dead letters of the topic {spec.topic} with the id {spec.topic_id}, but "
                f"{self._topic} has {self._topic_id}; move it away as well, or choose another name for the table"
            )
        return None
