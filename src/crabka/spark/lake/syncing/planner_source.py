"""Topics of a cluster, or of a tier alone, as the source of syncs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.lake.syncing.topic_sync import TopicEnds, TopicInspection
from crabka.spark.lake.values.rows import READ_COLUMNS
from crabka.spark.options.names import WHERE
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.history.divergence import Divergence, ReadPosition
from crabka.spark.plan.history.histories import inspect_history, survey_divergences
from crabka.spark.plan.planner import plan_offsets, survey_topics

if TYPE_CHECKING:
    from crabka.spark.plan.ranges import ReadPlan, Split
    from crabka.spark.read.split_reader import ReadSettings

_INTERNAL_PREFIX = "__"
_OWN = {"includeHeaders": "true"}
_DEFAULTS = {"isolation.level": "read_committed"}
_ISOLATION = ("isolation.level", "kafka.isolation.level")
_LIMITS = ("starting", "ending")


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """Reads splits in tasks."""

    settings: ReadSettings

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        from crabka.spark.read import read_split

        return read_split(split, self.settings)


class PlannerSource:
    """Plans with the options of the Spark source; rows of transactions that did not commit are left out by default."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of the source but for the topics.

        Raises ConfigError for options that choose rows: a table has all of them, and continues at its offsets.
        """
        limits = sorted(name for name in options if name.lower().startswith(_LIMITS))
        if limits:
            raise ConfigError(f"{limits[0]} is not allowed here: a table continues at its own offsets")
        lowered = {name.lower() for name in options}
        if WHERE in lowered:
            raise ConfigError(f"{WHERE} is not allowed here: a table has all rows of its topic")
        defaults = {} if lowered & set(_ISOLATION) else _DEFAULTS
        self._options = defaults | dict(options) | _OWN
        self._reader: SettingsReader | None = None

    @property
    def reader(self) -> SettingsReader:
        """What tasks read splits with; any topic's splits."""
        if self._reader is None:
            from crabka.spark.read.split_reader import ReadSettings

            settings = ReadSettings.of(self._parse({"subscribePattern": ".*"}), READ_COLUMNS)
            self._reader = SettingsReader(settings)
        return self._reader

    def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
        """Return the plan from these positions, or from the first offsets, to the end. Raises LogCutError."""
        begin = {TopicPartition(topic, partition): position.offset for partition, position in positions.items()}
        chains = {TopicPartition(topic, partition): position.chain for partition, position in positions.items()}
        return plan_offsets(self._parse({"subscribe": topic}), begin, None, chains)

    def inspect(
        self, plan: ReadPlan, positions: Mapping[int, ReadPosition], offsets: Mapping[int, Sequence[int]]
    ) -> TopicInspection:
        """Take witnesses at offsets of a plan's topic, and verify what was read before. Raises LogCutError."""
        (topic,) = plan.topic_ids
        found = inspect_history(
            self._parse({"subscribe": topic}),
            plan.survey,
            {TopicPartition(topic, partition): position for partition, position in positions.items()},
            {TopicPartition(topic, partition): wanted for partition, wanted in offsets.items()},
        )
        return TopicInspection(
            {place.partition: taken for place, taken in found.witnesses.items()},
            frozenset(each.partition.partition for each in found.divergences),
        )

    def divergences(self, topic: str, positions: Mapping[int, ReadPosition]) -> tuple[str | None, list[Divergence]]:
        """Return the id of a topic, and the partitions whose logs no longer have what was read of them."""
        places = {TopicPartition(topic, partition): position for partition, position in positions.items()}
        survey, found = survey_divergences(self._parse({"subscribe": topic}), places)
        ids = {each.id_text for each in survey.partitions.values()}
        return ids.pop() if len(ids) == 1 else None, found

    def topics(self, pattern: str) -> list[str]:
        """Return the topics that match a pattern as a whole, without internal ones."""
        survey = survey_topics(self._parse({"subscribePattern": f"^(?:{pattern})$"}))
        names = {partition.topic for partition in survey.partitions}
        return sorted(topic for topic in names if not topic.startswith(_INTERNAL_PREFIX))

    def ends(self, topic: str) -> TopicEnds:
        """Return how far a topic reaches."""
        survey = survey_topics(self._parse({"subscribe": topic}))
        ids = {each.id_text for each in survey.partitions.values()}
        ends = {partition.partition: each.latest for partition, each in survey.partitions.items()}
        return TopicEnds(ids.pop() if len(ids) == 1 else None, ends)

    def _parse(self, topics: Mapping[str, str]) -> SourceOptions:
        return SourceOptions.parse(self._options | dict(topics), streaming=False)
