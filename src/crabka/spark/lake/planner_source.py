"""Topics of a cluster, or of a tier alone, as the source of syncs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.lake.rows import READ_COLUMNS
from crabka.spark.lake.topic_sync import TopicEnds
from crabka.spark.plan.planner import plan_offsets, survey_topics
from crabka.spark.source.option_names import WHERE
from crabka.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from crabka.spark.plan.ranges import ReadPlan, Split
    from crabka.spark.read.settings import ReadSettings

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

        Raises ConfigError for those that choose rows: a table has all of them, and goes on where it is.
        """
        limits = sorted(name for name in options if name.lower().startswith(_LIMITS))
        if limits:
            raise ConfigError(f"{limits[0]} has no place here: a table goes on where it is, from the first offset on")
        lowered = {name.lower() for name in options}
        if WHERE in lowered:
            raise ConfigError(f"{WHERE} has no place here: a table has all rows of its topic")
        defaults = {} if lowered & set(_ISOLATION) else _DEFAULTS
        self._options = defaults | dict(options) | _OWN
        self._reader: SettingsReader | None = None

    @property
    def reader(self) -> SettingsReader:
        """What tasks read splits with; any topic's splits."""
        if self._reader is None:
            from crabka.spark.read.settings import ReadSettings

            settings = ReadSettings.of(self._parse({"subscribePattern": ".*"}), READ_COLUMNS)
            self._reader = SettingsReader(settings)
        return self._reader

    def plan(self, topic: str, starts: dict[int, int]) -> ReadPlan:
        """Return the plan from these offsets, or from the first ones, to the end."""
        begin = {TopicPartition(topic, partition): offset for partition, offset in starts.items()}
        return plan_offsets(self._parse({"subscribe": topic}), begin, None)

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
