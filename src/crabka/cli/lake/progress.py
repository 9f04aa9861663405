"""Progress of `crabka lake sync` as bars on a terminal, and the handling of signals."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from crabka.spark.lake.syncing.sync_job import LakeSync
from crabka.spark.lake.syncing.topic_sync import RoundResult


class LakeProgress:
    """A SyncListener: bars for bytes read, with rows and with the tasks of the current round."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rows]} rows{task.fields[tasks]}"),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._bars: dict[str, TaskID] = {}
        self._read_bytes: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._topic = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def began(self, topic: str) -> None:
        """Show a bar for a topic."""
        self._topic = topic
        if topic not in self._bars:
            self._bars[topic] = self._progress.add_task(topic, total=None, rows=0, tasks="")
            self._read_bytes[topic] = self._rows[topic] = 0

    def did_round(self, topic: str, result: RoundResult) -> None:
        """Update the bar of a topic."""
        self._read_bytes[topic] += result.read_bytes
        self._rows[topic] += result.rows
        done = self._read_bytes[topic]
        self._progress.update(
            self._bars[topic], completed=done, total=done + result.left_bytes, rows=self._rows[topic], tasks=""
        )

    def failed(self, topic: str, error: Exception) -> None:
        """Show an error in one line, above the bars."""
        text = " ".join(str(error).split()) or type(error).__name__
        self._progress.console.print(f"{topic}: {text}", markup=False, highlight=False, soft_wrap=True)

    def did_tasks(self, done: int, count: int) -> None:
        """Show how many tasks of the round are done."""
        if self._topic in self._bars:
            self._progress.update(self._bars[self._topic], tasks=f", task {done} of {count}")


def follow_until_interrupted(job: LakeSync, interval_seconds: float) -> None:
    """Run a sync until it is interrupted; the first SIGINT or SIGTERM lets the current sync finish."""
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        job.follow(lambda: not stopping.is_set() and not stopping.wait(interval_seconds))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
