"""Waits until replicas have arrived in their log dirs, and shows the progress."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from crabka.cli.log_dirs.view import RunningMove, move_rates, running_moves
from crabka.cli.units import format_size
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import LogDirDescription
from crabka.clients.errors import ClientNetworkError
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

POLL_SECONDS: Final = 0.5
# The broker may be busy or down for a while: so many requests in a row may fail.
PATIENCE: Final = 60
# A replica that is neither moving nor arrived so often in a row will not arrive.
LOST_LOOKS: Final = 3


class SentReplica(NamedTuple):
    """A replica whose move was requested."""

    broker: int
    partition: TopicPartition
    target: str


class DirMoveDisplay(Protocol):
    """Shows moves."""

    def update(self, moves: list[RunningMove], done: int) -> None:
        """Note the moves in progress and how many are done."""


class LinePerLook:
    """A line on stderr for each progress of a move."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._before: list[RunningMove] = []
        self._before_s = 0.0
        self._done = 0

    def update(self, moves: list[RunningMove], done: int) -> None:
        """Print what has changed."""
        now_s = time.monotonic()
        rates = move_rates(self._before, moves, now_s - self._before_s)
        for move in moves:
            if move not in self._before:
                rate = rates.get((move.broker, move.partition))
                speed = "" if rate is None else f", {format_size(rate)} per second"
                size = f"{format_size(move.copied_bytes)} of {format_size(move.size_bytes)}"
                print(f"{move.partition} to {move.target}: {size}{speed}", file=sys.stderr)
        if done != self._done:
            print(f"{done} of {self._total} moves are done", file=sys.stderr)
        self._before, self._before_s, self._done = moves, now_s, done


class BarPerMove:
    """A bar with bytes and speed for each move."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[tuple[int, TopicPartition], TaskID] = {}

    def update(self, moves: list[RunningMove], done: int) -> None:  # noqa: ARG002 - full bars show it
        """Move the bars; one whose move is gone is full."""
        present = {(move.broker, move.partition): move for move in moves}
        for key, bar in self._bars.items():
            if key not in present:
                self._progress.update(bar, completed=self._progress.tasks[bar].total)
        for key, move in present.items():
            if key not in self._bars:
                self._bars[key] = self._progress.add_task(f"{move.partition} to {move.target}", total=1)
            total = max(move.size_bytes, 1)
            self._progress.update(self._bars[key], completed=min(move.copied_bytes, total), total=total)


@contextlib.contextmanager
def dir_move_display(total: int) -> Iterator[DirMoveDisplay]:
    """Show progress on stderr: bars on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield LinePerLook(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield BarPerMove(progress)


async def wait_until_arrived(admin: Admin, sent: list[SentReplica], *, poll_seconds: float = POLL_SECONDS) -> None:
    """Return when all replicas have arrived. Raises CrabkaError for one that stays elsewhere."""
    left, looks_lost = list(sent), dict.fromkeys(sent, 0)
    with dir_move_display(len(sent)) as display:
        while True:
            dirs = {
                broker: await _dirs(admin, broker, poll_seconds) for broker in sorted({each.broker for each in left})
            }
            moves = running_moves(dirs)
            left = [each for each in left if not _has_arrived(each, dirs[each.broker])]
            wanted = {(each.broker, each.partition) for each in left}
            moves = [move for move in moves if (move.broker, move.partition) in wanted]
            display.update(moves, len(sent) - len(left))
            if not left:
                return
            _require_moving(left, moves, looks_lost)
            await asyncio.sleep(poll_seconds)


def _has_arrived(sent: SentReplica, dirs: list[LogDirDescription]) -> bool:
    key = (sent.partition.topic, sent.partition.partition)
    found = {each.path: each.replicas[key].is_future for each in dirs if key in each.replicas}
    return found.get(sent.target) is False


def _require_moving(left: list[SentReplica], moves: list[RunningMove], looks_lost: dict[SentReplica, int]) -> None:
    moving = {(move.broker, move.partition, move.target) for move in moves}
    for each in left:
        looks_lost[each] = 0 if tuple(each) in moving else looks_lost[each] + 1
        if looks_lost[each] >= LOST_LOOKS:
            raise CrabkaError(
                f"{each.partition} is no longer moving to {each.target} of broker {each.broker}: the move was "
                "cancelled, or one of the dirs failed"
            )


async def _dirs(admin: Admin, broker: int, poll_seconds: float) -> list[LogDirDescription]:
    for _ in range(PATIENCE):
        try:
            return await admin.log_dirs.describe(broker, include_failed=True)
        except (ClientNetworkError, OperationError):
            await asyncio.sleep(poll_seconds)
    return await admin.log_dirs.describe(broker, include_failed=True)
