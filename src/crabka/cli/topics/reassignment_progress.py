"""Waits until replicas have moved, and shows the progress: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.cluster_types import ReplicaMove
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.ids import TopicPartition

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

POLL_SECONDS: Final = 0.5
# Brokers may stop and start while replicas move: so many requests in a row may fail.
PATIENCE: Final = 60


class MoveDisplay(Protocol):
    """Shows how many partitions are done."""

    def update(self, done: int, coming: int) -> None:
        """Note the partitions that are done and the replicas that are still missing."""


class LineDisplay:
    """A line on stderr whenever something has changed."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._last: tuple[int, int] | None = None

    def update(self, done: int, coming: int) -> None:
        """Print, unless nothing has changed."""
        if self._last != (done, coming):
            self._last = (done, coming)
            print(f"{done} of {self._total} partitions are done, {coming} replicas to come", file=sys.stderr)


class BarDisplay:
    """A progress bar."""

    def __init__(self, progress: Progress, bar: TaskID) -> None:
        self._progress = progress
        self._bar = bar

    def update(self, done: int, coming: int) -> None:
        """Move the bar."""
        self._progress.update(self._bar, completed=done, description=f"partitions ({coming} replicas to come)")


@contextlib.contextmanager
def move_display(total: int) -> Iterator[MoveDisplay]:
    """Show progress on stderr: a bar on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield LineDisplay(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield BarDisplay(progress, progress.add_task("partitions", total=total))


async def wait_until_moved(
    admin: Admin, partitions: Collection[TopicPartition], *, poll_seconds: float = POLL_SECONDS
) -> None:
    """Return when none of the partitions is being reassigned. Raises the last error of requests that keep failing."""
    with move_display(len(partitions)) as display:
        while True:
            left = await _moving(admin, partitions, poll_seconds)
            display.update(len(partitions) - len(left), sum(len(each.adding) for each in left.values()))
            if not left:
                return
            await asyncio.sleep(poll_seconds)


async def _moving(
    admin: Admin, partitions: Collection[TopicPartition], poll_seconds: float
) -> dict[TopicPartition, ReplicaMove]:
    for _ in range(PATIENCE):
        try:
            return await admin.replicas.list_reassignments(partitions)
        except (ClientNetworkError, OperationError):
            await asyncio.sleep(poll_seconds)
    return await admin.replicas.list_reassignments(partitions)
