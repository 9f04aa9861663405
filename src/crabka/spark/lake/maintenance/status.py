"""The job `lake status`: the lag of a table behind its topic, its files and its last commits."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.offsets import lag
from crabka.spark.lake.formats.table import CommitInfo, TableFormat
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.dead_letters import SUFFIX
from crabka.spark.lake.syncing.topic_sync import TopicSource
from crabka.spark.lake.values.schemas import REASON

LAST_COMMITS = 5


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The position of one partition."""

    partition: int
    committed: int
    # None where the topic was not asked.
    end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The state of a table."""

    table: str
    topic: str
    topic_id: str
    partitions: tuple[PartitionStatus, ...]
    rows: int
    dead_rows: int
    files: int
    size_bytes: int
    # How old the last commit is.
    age_ms: int | None
    commits: tuple[CommitInfo, ...]

    @property
    def lag(self) -> int | None:
        """How many offsets the table is behind, None where the topic was not asked."""
        known = [partition.lag for partition in self.partitions if partition.lag is not None]
        return sum(known) if len(known) == len(self.partitions) else None


def table_status(lake: Lake, name: str, source: TopicSource | None, now_ms: int) -> TableStatus:
    """Return the state of a table; with a source also how far it is behind. Raises LakeError and what sources raise."""
    table = lake.open(name)
    if table is None:
        raise LakeError(f"There is no {lake.table_format} table {name} at {lake.root}")
    spec, files, commits = table.spec, table.files(), table.history(LAST_COMMITS)
    if REASON in spec.schema.names and name.endswith(SUFFIX):
        # Dead letters are committed when there are some, so that their offsets say nothing of how far anything is.
        source = None
    dead = lake.open(name + SUFFIX)
    if dead is not None and dead.spec.topic_id != spec.topic_id:
        dead = None
    return TableStatus(
        table=name,
        topic=spec.topic,
        topic_id=spec.topic_id,
        partitions=_partitions(table, source),
        rows=sum(file.rows for file in files),
        dead_rows=0 if dead is None else sum(file.rows for file in dead.files()),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        age_ms=max(0, now_ms - commits[0].timestamp_ms) if commits else None,
        commits=tuple(commits),
    )


def _partitions(table: TableFormat, source: TopicSource | None) -> tuple[PartitionStatus, ...]:
    committed = table.committed_offsets()
    if source is None:
        return tuple(PartitionStatus(partition, offset, None, None) for partition, offset in sorted(committed.items()))
    spec = table.spec
    ends = source.ends(spec.topic)
    if ends.topic_id != spec.topic_id:
        raise LakeError(f"The topic {spec.topic} is not the one that the table follows: it was created anew")
    behind = lag(committed, ends.offsets)
    return tuple(
        PartitionStatus(partition, committed.get(partition, 0), end, behind[partition])
        for partition, end in sorted(ends.offsets.items())
    )
