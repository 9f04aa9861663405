"""The sync of one topic into one table: plan, write and commit, in rounds until the table has all rows.

Exactly once: rows and offsets are one commit, and a commit builds on the offsets that the round began with. After a
crash the next run resumes from the last commit. Of two runs at the same time one wins each round, and the other starts
again from the new commit.

Offsets alone do not say that the log below them is still the one that was read, so a table also has witnesses of its
batches. Each round takes those of what it is about to read, and then verifies those of what the table has, before it
reads anything: `crabka.spark.plan.history.histories` has the rule.

A plan is used for several rounds, since a backfill would otherwise plan all that is left for each of them. It is valid
only while the table has the offsets that the last round committed. A round that fails or is lost drops it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from crabka.errors import ConfigError, CrabkaError
from crabka.spark.lake.errors import LakeError, SchemaConflictError
from crabka.spark.lake.formats.offsets import Offsets
from crabka.spark.lake.formats.table import TableFormat, TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.commits import CommitOutcome, commit_once, evolve_to
from crabka.spark.lake.syncing.dead_letters import SUFFIX, DeadLetters, is_dead_letters
from crabka.spark.lake.syncing.rounds import Round, next_round
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.tasks import SplitReader, TaskResult, WriteJob
from crabka.spark.lake.values.inferred_fields import grown
from crabka.spark.lake.values.schemas import DATE, LOG_COLUMNS, OFFSET, table_schema
from crabka.spark.plan.history.divergence import LogCutError, ReadPosition
from crabka.spark.plan.history.witnesses import BatchWitness, Chain, Chains, extended, sample_offsets
from crabka.spark.plan.ranges import ReadPlan, Split

logger = logging.getLogger(__name__)
_MAX_EVOLUTIONS = 20


class SyncStep(StrEnum):
    """Points of a round; a sync may die at any of them, or between them."""

    PLANNED = "planned"
    TABLE_OPENED = "table opened"
    WRITTEN = "written"
    EVOLVED = "evolved"
    DEAD_LETTERS_COMMITTED = "dead letters committed"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """How far a topic reaches: its id, if it is known, and the offset after the last one by partition."""

    topic_id: str | None
    offsets: dict[int, int]


@dataclass(frozen=True, slots=True)
class TopicInspection:
    """Witnesses of the rows to be read, by partition, and the partitions whose logs were cut, if that is accepted."""

    witnesses: Mapping[int, Sequence[BatchWitness]]
    cut: frozenset[int] = frozenset()


class TopicSource(Protocol):
    """The source of rows."""

    @property
    def reader(self) -> SplitReader:
        """What tasks read splits with."""
        ...

    def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
        """Return the plan from these positions, or from the first offsets, to the end. Raises LogCutError."""
        ...

    def inspect(
        self, plan: ReadPlan, positions: Mapping[int, ReadPosition], offsets: Mapping[int, Sequence[int]]
    ) -> TopicInspection:
        """Take witnesses at offsets of a plan's topic, and verify what was read before. Raises LogCutError."""
        ...

    def ends(self, topic: str) -> TopicEnds:
        """Return how far a topic reaches, without a plan."""
        ...


class TaskRunner(Protocol):
    """Runs tasks."""

    def run(self, job: WriteJob, splits: Sequence[Split]) -> list[TaskResult]:
        """Run a task per split and return the results."""
        ...


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round did."""

    outcome: CommitOutcome
    rows: int = 0
    dead_rows: int = 0
    files: int = 0
    size_bytes: int = 0
    read_bytes: int = 0
    left_bytes: int = 0
    # Nothing is left of the plan.
    is_last: bool = False
    # The plan was made for this round, and not for one before it.
    is_planned_anew: bool = False


class TopicSync:
    """Brings one topic into one table."""

    def __init__(
        self,
        lake: Lake,
        source: TopicSource,
        runner: TaskRunner,
        settings: SyncSettings,
        *,
        topic: str,
        table_name: str | None = None,
        on_step: Callable[[SyncStep], None] = lambda _step: None,
    ) -> None:
        """The table has the topic's name by default; `on_step` is called at every step."""
        self._lake = lake
        self._source = source
        self._runner = runner
        self._settings = settings
        self._topic = topic
        self.table_name = table_name or topic
        self._on_step = on_step
        self._decoder = settings.decoder
        # A plan of which something is left, and the offsets that its last round committed.
        self._left: tuple[ReadPlan, dict[int, int]] | None = None

    def run_round(self) -> RoundResult | None:
        """Do one round; None if the table is up to date. Raises LakeError and what sources raise."""
        table = self._lake.open(self.table_name)
        before = {} if table is None else table.committed_offsets()
        left, self._left = self._left, None
        is_planned_anew = left is None or left[1] != before
        chains = {} if table is None else table.witnesses()
        plan = self._plan(table, before, chains) if left is None or is_planned_anew else left[0]
        topic_id = self._topic_id(plan)
        self._on_step(SyncStep.PLANNED)
        if table is None:
            table = self._lake.create(self.table_name, self._new_spec(topic_id))
            self._require_same(table, topic_id)
        self._on_step(SyncStep.TABLE_OPENED)
        chosen = next_round(plan, self._topic, before, self._settings.limits)
        witnesses = self._witnesses(plan, chosen, chains)
        if chosen.is_empty and witnesses == chains:
            return None
        dead_letters = DeadLetters(self._lake, self.table_name, self._topic, topic_id)
        results = self._write(table, chosen, dead_letters)
        result = self._commit(table, chosen, dead_letters, results, witnesses)
        if result.outcome is CommitOutcome.COMMITTED and not chosen.is_last:
            self._left = (plan, dict(chosen.after))
        return replace(result, is_planned_anew=is_planned_anew)

    def _plan(self, table: TableFormat | None, before: Offsets, chains: Chains) -> ReadPlan:
        try:
            plan = self._source.plan(self._topic, read_positions(before, chains))
        except CrabkaError as error:
            # The offsets may be those of another topic that had the same name.
            if table is not None and before:
                self._require_same(table, self._topic_id(self._source.plan(self._topic, {})))
            if isinstance(error, LogCutError):
                raise self._with_remedy(error) from error
            raise
        if table is not None:
            self._require_same(table, self._topic_id(plan))
        return plan

    def _witnesses(self, plan: ReadPlan, chosen: Round, chains: Chains) -> dict[int, Chain]:
        """Return the witnesses of the table after a round. Raises LogCutError if the log is not the one it had."""
        count = len(chosen.after)
        offsets = {
            partition: sample_offsets(chosen.before.get(partition, 0), end, count)
            for partition, end in chosen.after.items()
        }
        for partition, end in chosen.before.items():
            if not chains.get(partition) and not offsets[partition] and end > 0:
                offsets[partition] = [end - 1]  # a table of an earlier version
        try:
            found = self._source.inspect(plan, read_positions(chosen.before, chains), offsets)
        except LogCutError as error:
            raise self._with_remedy(error) from error
        kept = {partition: () if partition in found.cut else chains.get(partition, ()) for partition in chosen.after}
        after = {p: extended(chain, found.witnesses.get(p, ()), count) for p, chain in kept.items()}
        return {partition: chain for partition, chain in after.items() if chain}

    def _with_remedy(self, error: LogCutError) -> LogCutError:
        remedy = f"; `crabka lake rewind {self.table_name} --execute` removes the rows that the log no longer has"
        return LogCutError(error.divergences, remedy)

    def _topic_id(self, plan: ReadPlan) -> str:
        if self._topic not in plan.topic_ids:
            raise LakeError(f"The topic {self._topic} does not exist")
        topic_id = plan.topic_ids[self._topic]
        if topic_id is None:
            raise LakeError(f"The id of the topic {self._topic} is not known; a table needs it to follow the topic")
        return topic_id

    def _require_same(self, table: TableFormat, topic_id: str) -> None:
        spec = table.spec
        if is_dead_letters(self.table_name, spec):
            raise LakeError(
                f"The table {self.table_name} has the dead letters of the topic {spec.topic}: "
                f"choose another name for the table of {self._topic}"
            )
        if spec.topic != self._topic:
            raise LakeError(
                f"The table {self.table_name} follows the topic {spec.topic}, not {self._topic}; choose another name"
            )
        known = spec.topic_id
        if known != topic_id:
            raise LakeError(
                f"The topic {self._topic} was created anew: the table {self.table_name} follows the topic with the id "
                f"{known}, the topic has {topic_id} now; move the table away or choose another name"
            )

    def _new_spec(self, topic_id: str) -> TableSpec:
        column = self._settings.partition_column
        schema = table_schema(self._decoder.fields, with_date=self._settings.partition_by == "date")
        if column is not None and column not in schema.names:
            raise ConfigError(f"The table cannot be partitioned by {column}: there is no such column")
        if column is not None and not _may_partition(schema.field(column).type):
            raise ConfigError(f"The table cannot be partitioned by {column}: its type is {schema.field(column).type}")
        if column == OFFSET:
            raise ConfigError(f"The table cannot be partitioned by {column}: every row would have a file of its own")
        return TableSpec(self._topic, topic_id, schema, column)

    def _write(self, table: TableFormat, chosen: Round, dead_letters: DeadLetters) -> list[TaskResult]:
        """Run the tasks, some again as long as they find fields that the table does not have."""
        self._learn_columns(table)
        known_dead = dead_letters.ahead_of(chosen.before)
        waiting, done = list(chosen.splits), list[TaskResult]()
        for _ in range(_MAX_EVOLUTIONS):
            answers = self._runner.run(self._job(table, known_dead), waiting) if waiting else []
            done += [answer for answer in answers if not answer.new_fields]
            found = [answer for answer in answers if answer.new_fields]
            if not found:
                self._on_step(SyncStep.WRITTEN)
                return done
            for answer in found:
                # Of what excludes each other the first stays; rows that do not fit are dead letters.
                self._decoder = self._decoder.with_fields(grown(self._decoder.fields, answer.new_fields))
            self._evolve(table)
            waiting = [waiting[answer.task] for answer in found]
        raise LakeError(f"Values of {self._topic} have new fields after {_MAX_EVOLUTIONS} rounds of adding columns")

    def _learn_columns(self, table: TableFormat) -> None:
        """Make the columns of the table and of the decoder equal."""
        spec = table.spec
        if self._settings.partition_column != spec.partition_column:
            raise ConfigError(f"The table {self.table_name} is partitioned by {spec.partition_column or 'nothing'}")
        if self._decoder.infers:
            log_names = {*LOG_COLUMNS.names, DATE}
            self._decoder = self._settings.decoder.with_fields(
                [field for field in spec.schema if field.name not in log_names]
            )
        else:
            evolve_to(table, table_schema(self._decoder.fields, with_date=False))

    def _evolve(self, table: TableFormat) -> None:
        """Give the table the fields that were found, but for those that another sync has found otherwise."""
        try:
            evolve_to(table, table_schema(self._decoder.fields, with_date=False))
        except SchemaConflictError:
            table.refresh()
            self._learn_columns(table)
            logger.info("another sync added columns to %s first, theirs stay", self.table_name)
        else:
            self._on_step(SyncStep.EVOLVED)

    def _job(self, table: TableFormat, known_dead: dict[int, set[int]]) -> WriteJob:
        spec = table.spec
        return WriteJob(
            read=self._source.reader,
            store=self._lake.store(self.table_name),
            dead_letter_store=self._lake.store(self.table_name + SUFFIX),
            topic_id=spec.topic_id,
            schema=spec.schema,
            decoder=self._decoder,
            partition_column=spec.partition_column,
            stores_partition_column=table.stores_partition_column,
            target_bytes=self._settings.target_bytes,
            known_dead=dict(known_dead),
        )

    def _commit(
        self,
        table: TableFormat,
        chosen: Round,
        dead_letters: DeadLetters,
        results: Sequence[TaskResult],
        witnesses: Chains,
    ) -> RoundResult:
        dead = [file for result in results for file in result.dead_letters]
        files = [file for result in results for file in result.files]
        outcome = dead_letters.commit(dead, chosen.after)
        if outcome is CommitOutcome.COMMITTED:
            self._on_step(SyncStep.DEAD_LETTERS_COMMITTED)
            outcome = commit_once(table, files, chosen.before, chosen.after, witnesses=witnesses)
        if outcome is not CommitOutcome.COMMITTED:
            return RoundResult(outcome)
        self._on_step(SyncStep.COMMITTED)
        return RoundResult(
            outcome,
            rows=sum(file.rows for file in files),
            dead_rows=sum(file.rows for file in dead),
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            read_bytes=chosen.size_bytes,
            left_bytes=chosen.left_bytes,
            is_last=chosen.is_last,
        )


def read_positions(offsets: Offsets, chains: Chains) -> dict[int, ReadPosition]:
    """Return how far a table is, by partition."""
    return {partition: ReadPosition(offset, chains.get(partition, ())) for partition, offset in offsets.items()}


def _may_partition(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    )
