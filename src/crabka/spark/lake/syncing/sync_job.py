"""The job `lake sync`: topics into tables, once or continuously, and what it reports.

A topic that fails is reported and does not stop the others. A sync that follows topics retries at the next interval:
stores and clusters come back, and a topic that was created anew does not concern the others. It ends if Spark's Java is
gone, or if in the first turn every topic fails because of the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from crabka.errors import ConfigError, InvariantError
from crabka.spark.lake.errors import TopicsFailedError
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.commits import CommitOutcome
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import RoundResult, SyncStep, TaskRunner, TopicSource, TopicSync


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
            raise ConfigError("Give either topics or a pattern")
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
    # Rounds that another sync won.
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


class SyncListener(Protocol):
    """Receives the progress of a sync."""

    def began(self, topic: str) -> None:
        """A topic's turn begins."""
        ...

    def did_round(self, topic: str, result: RoundResult) -> None:
        """A round ended."""
        ...

    def failed(self, topic: str, error: Exception) -> None:
        """A topic's turn, or the search for topics, ended with an error other than that of the last turn."""
        ...


class _NoListener:
    """Ignores progress."""

    def began(self, topic: str) -> None:
        pass

    def did_round(self, topic: str, result: RoundResult) -> None:
        pass

    def failed(self, topic: str, error: Exception) -> None:
        pass


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
        self._listener = listener or _NoListener()
        self._on_step = on_step
        self._summaries: dict[str, TopicSummary] = {}
        self._errors: dict[str, Exception] = {}

    @property
    def summaries(self) -> list[TopicSummary]:
        """What was done so far, by topic."""
        return [self._summaries[topic] for topic in sorted(self._summaries)]

    def run_once(self) -> None:
        """Bring all tables up to the ends of their topics.

        Raises what made the only topic fail, TopicsFailedError for several ones, and what sources raise.
        """
        topics = self._topics()
        errors = self._sync_all(topics, lambda _topic, _error: None)
        if len(topics) == 1:
            for error in errors.values():
                raise error
        if errors:
            raise TopicsFailedError(errors)

    def follow(self, wait: Callable[[], bool]) -> None:
        """Run, and run again each time that `wait` returns true; it waits for the next interval.

        Errors are reported to the listener. Raises ConfigError if nothing else came of the first time.
        """
        errors = list(self._turn().values())
        if len(errors) >= len(self._summaries) and all(isinstance(error, ConfigError) for error in errors):
            for error in errors:
                raise error
        while wait():
            self._turn()

    def _turn(self) -> dict[str, Exception]:
        """Run once and report errors, but for those of the last turn. Returns all of them."""
        try:
            errors = self._sync_all(self._topics(), self._report)
        except Exception as error:  # noqa: BLE001 - libraries of stores raise what they like
            _raise_if_final(error)
            errors = {self._request.pattern or "": error}
            self._report(*next(iter(errors.items())))
        self._errors = errors
        return errors

    def _report(self, place: str, error: Exception) -> None:
        if str(error) != str(self._errors.get(place)):
            self._listener.failed(place, error)

    def _topics(self) -> Sequence[str]:
        pattern = self._request.pattern
        return self._request.topics if pattern is None else self._source.topics(pattern)

    def _sync_all(self, topics: Sequence[str], report: Callable[[str, Exception], None]) -> dict[str, Exception]:
        """Return the errors of the topics that failed. Raises errors that no later turn can recover from."""
        errors: dict[str, Exception] = {}
        for topic in topics:
            try:
                self._sync(topic)
            except Exception as error:  # noqa: BLE001 - libraries of stores raise what they like
                _raise_if_final(error)
                report(topic, error)
                errors[topic] = error
        return errors

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
            # Records that arrived since the last plan are for the next turn, or a busy topic would never end. But a
            # plan of many rounds is too old for that.
            is_committed = result.outcome is CommitOutcome.COMMITTED
            if result.is_last and result.is_planned_anew and is_committed:
                return


def _raise_if_final(error: Exception) -> None:
    """Raise an error that no later turn can recover from: Spark's Java is gone, or this is a bug."""
    from py4j.protocol import Py4JError, Py4JJavaError

    # An exception of Java's own comes from a Java that is alive.
    is_java_gone = isinstance(error, (ConnectionError, Py4JError)) and not isinstance(error, Py4JJavaError)
    if is_java_gone or isinstance(error, InvariantError):
        raise error


def sync(
    lake: Lake, options: Mapping[str, str], request: SyncRequest, *, master: str | None = None
) -> list[TopicSummary]:
    """Bring topics into tables and return what was done; `options` are those of the Spark source but for the topics.

    Uses the active Spark session, or one of its own. Raises ConfigError, LakeError and what sources raise.
    """
    from crabka.spark.lake.syncing.planner_source import PlannerSource
    from crabka.spark.lake.syncing.spark_runner import SparkRunner
    from crabka.spark.session.job_session import job_session

    with job_session("crabka lake sync", master) as session:
        job = LakeSync(lake, PlannerSource(options), SparkRunner(session), request)
        job.run_once()
        return job.summaries
