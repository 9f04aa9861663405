"""The job `lake sync`: topics into tables, once or for ever, and what it tells about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from crabka.errors import ConfigError
from crabka.spark.lake.commits import CommitOutcome
from crabka.spark.lake.settings import SyncSettings
from crabka.spark.lake.tables import Lake
from crabka.spark.lake.topic_sync import RoundResult, SyncStep, TaskRunner, TopicSource, TopicSync


class TopicFinder(TopicSource, Protocol):
    """A source that also finds topics."""

    def topics(self, pattern: str) -> list[str]:
        """Return the topics whose whole names match."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """What to bring where. Raises ConfigError for what makes no sense."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    # The table of the only topic, if it is not to have the topic's name.
    table_name: str | None = None
    settings: SyncSettings

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise ConfigError("Name topics or give a pattern, one of both")
        if self.table_name is not None and len(self.topics) != 1:
            raise ConfigError("A table's name is for one topic only")


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """What was done for a topic."""

    topic: str
    table: str
    rows: int = 0
    dead_rows: int = 0
    files: int = 0
    size_bytes: int = 0
    rounds: int = 0
    # Rounds that somebody else's sync was faster with.
    lost_rounds: int = 0

    def plus(self, result: RoundResult) -> TopicSummary:
        """Return the summary with one more round."""
        if result.outcome is not CommitOutcome.COMMITTED:
            return replace(self, lost_rounds=self.lost_rounds + 1)
        return replace(
            self,
            rows=self.rows + result.rows,
            dead_rows=self.dead_rows + result.dead_rows,
            files=self.files + result.files,
            size_bytes=self.size_bytes + result.size_bytes,
            rounds=self.rounds + 1,
        )


class SyncListener:
    """Hears how a sync goes on; does nothing with it."""

    def began(self, topic: str) -> None:
        """A topic's turn begins."""

    def did_round(self, topic: str, result: RoundResult) -> None:
        """A round ended."""

    def did_tasks(self, done: int, count: int) -> None:
        """Some tasks of the round are done."""


class LakeSync:
    """Brings topics into tables, topic after topic."""

    def __init__(
        self,
        lake: Lake,
        source: TopicFinder,
        runner: TaskRunner,
        request: SyncRequest,
        *,
        listener: SyncListener | None = None,
        on_step: Callable[[SyncStep], None] = lambda _step: None,
    ) -> None:
        self._lake = lake
        self._source = source
        self._runner = runner
        self._request = request
        self._listener = listener or SyncListener()
        self._on_step = on_step
        self._summaries: dict[str, TopicSummary] = {}

    @property
    def summaries(self) -> list[TopicSummary]:
        """What was done so far, by topic."""
        return [self._summaries[topic] for topic in sorted(self._summaries)]

    def run_once(self) -> None:
        """Bring all topics to the ends that they have when their turn ends. Raises LakeError and what sources raise."""
        for topic in self._topics():
            self._sync(topic)

    def follow(self, wait: Callable[[], bool]) -> None:
        """Run again and again; `wait` passes the time in between and says whether to go on."""
        self.run_once()
        while wait():
            self.run_once()

    def _topics(self) -> Sequence[str]:
        pattern = self._request.pattern
        return self._request.topics if pattern is None else self._source.topics(pattern)

    def _sync(self, topic: str) -> None:
        sync = TopicSync(
            self._lake,
            self._source,
            self._runner,
            self._request.settings,
            topic=topic,
            table_name=self._request.table_name,
            on_step=self._on_step,
        )
        self._summaries.setdefault(topic, TopicSummary(topic, sync.table_name))
        self._listener.began(topic)
        while (result := sync.run_round()) is not None:
            self._summaries[topic] = self._summaries[topic].plus(result)
            self._listener.did_round(topic, result)
            # What came while the last round was written is for the next time: a busy topic would never end.
            if result.is_last and result.outcome is CommitOutcome.COMMITTED:
                return


def sync(
    lake: Lake, options: Mapping[str, str], request: SyncRequest, *, master: str | None = None
) -> list[TopicSummary]:
    """Bring topics into tables and return what was done; `options` are those of the Spark source but for the topics.

    Uses the active Spark session, or one of its own. Raises ConfigError, LakeError and what sources raise.
    """
    from crabka.spark.lake.planner_source import PlannerSource
    from crabka.spark.lake.spark_runner import SparkRunner
    from crabka.spark.session import job_session

    with job_session("crabka lake sync", master) as session:
        job = LakeSync(lake, PlannerSource(options), SparkRunner(session), request)
        job.run_once()
        return job.summaries
