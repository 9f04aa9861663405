"""Tasks run by Spark, one per split: a frame with the numbers of splits through mapInArrow, as Connect allows too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.syncing.tasks import RESULT_DDL, TaskResult, WriteJob, arrow_task, decode_results
from crabka.spark.plan.ranges import Split
from crabka.spark.session.error_texts import failure_of
from crabka.spark.session.row_tasks import collect_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.5


class SparkRunner:
    """Runs tasks in a session. `on_tasks` receives how many are done, of how many."""

    def __init__(self, session: SparkSession, on_tasks: Callable[[int, int], None] = lambda _done, _all: None) -> None:
        self._session = session
        self._on_tasks = on_tasks

    @property
    def parallelism(self) -> int:
        """How many tasks run at once; a guess where Spark does not say."""
        context = _context(self._session)
        return 2 if context is None else max(1, int(context.defaultParallelism))

    def run(self, job: WriteJob, splits: Sequence[Split]) -> list[TaskResult]:
        """Run a task per split. Raises LakeError with the message of a task that failed after all retries."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if not splits:
            return []
        numbers = self._session.range(0, len(splits), 1, len(splits))
        # Collected once: asking a second time would write everything again.
        with self._watching(len(splits)):
            try:
                rows = collect_rows(numbers.mapInArrow(arrow_task(job, splits), RESULT_DDL))
            except (PySparkException, Py4JJavaError) as error:
                # The second is raised for a worker that dies: Java is alive, and reports it.
                raise LakeError(failure_of(str(error))) from error
        return decode_results(rows, len(splits))

    @contextmanager
    def _watching(self, count: int) -> Iterator[None]:
        context = _context(self._session)
        if context is None:
            yield
            return
        group = f"crabka-lake-{uuid4()}"
        context.setJobGroup(group, "crabka lake sync")
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(context, group, count, done), name="lake-progress")
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            context.setLocalProperty("spark.jobGroup.id", None)
        self._on_tasks(count, count)

    def _watch(self, context: Any, group: str, count: int, done: threading.Event) -> None:
        from py4j.protocol import Py4JError

        # A Java that is gone makes no progress; the thread that waits for its rows raises the error.
        with suppress(Py4JError, ConnectionError):
            self._report_progress(context.statusTracker(), group, count, done)

    def _report_progress(self, tracker: Any, group: str, count: int, done: threading.Event) -> None:
        while not done.wait(_POLL_SECONDS):
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getJobIdsForGroup(group)
                if (found := tracker.getJobInfo(job)) is not None
                for stage in found.stageIds
            ]
            self._on_tasks(min(count, sum(stage.numCompletedTasks for stage in stages if stage is not None)), count)


def _context(session: SparkSession) -> Any | None:
    """Return the context of a classic session; Connect has none."""
    try:
        return session.sparkContext
    except Exception:  # noqa: BLE001 - Connect raises one of several errors
        return None
