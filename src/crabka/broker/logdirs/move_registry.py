"""All moves of a node: which partition is on its way where, who has to wait, how far they are.

A partition has at most one move. To ask for the same target again changes nothing; another target cancels the move and
starts a new one when that is over; the dir that it came from cancels it. A move that cannot be turned back any more is
completed first. So many partitions copy at a time as `num.replica.alter.log.dirs.threads` says, one per log dir if it
says nothing; the others wait in line.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.logdirs.disk_errors import blaming, has_no_room
from crabka.broker.logdirs.move_events import (
    Cancelled,
    MoveOutcome,
    MoveState,
    SourceFailed,
    Stopped,
    Suspended,
    TargetFailed,
)
from crabka.broker.logdirs.mover import Mover
from crabka.errors import InvariantError, StorageError
from crabka.formats.file_names import DirectoryKind, marked_name
from crabka.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crabka.broker.logdirs.move_events import Finish
    from crabka.broker.logdirs.move_host import MoveHost
    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.errors import CrabkaError
    from crabka.ports import Spawn

logger = logging.getLogger(__name__)


class MoveProgress(NamedTuple):
    """How far a move is, for DescribeLogDirs and metrics."""

    topic: str
    partition: int
    source_dir: str
    target_dir: str
    state: MoveState
    # Bytes of the future log, and of the log.
    size_bytes: int
    total_bytes: int
    # How many offsets the future log is behind.
    offset_lag: int
    bytes_per_second: float


@dataclass(slots=True)
class MoveStats:
    """What the moves of a node have done since it started."""

    moved: int = 0
    cancelled: int = 0
    failed: int = 0
    bytes_written: int = 0


@dataclass(slots=True, eq=False)
class _Move:
    """A move with its task, and where to go after it."""

    mover: Mover
    task: asyncio.Future[Any] | None = None
    # Where the partition is to be when this move is over, if not where it then is.
    next_dir: str | None = None


class MoveRegistry:
    """The moves of one node. All methods run on the loop."""

    def __init__(
        self,
        host: MoveHost,
        partitions: PartitionRegistry,
        *,
        spawn: Spawn,
        slots: int,
        fail: Callable[[CrabkaError], None] = lambda _error: None,
    ) -> None:
        """`fail` ends the node when what it believes of itself is wrong."""
        self.host = host
        self.stats = MoveStats()
        self._partitions = partitions
        self._spawn = spawn
        self._fail = fail
        self._slots = asyncio.Semaphore(max(slots, 1))
        self._moves: dict[TopicPartition, _Move] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._moves)

    # -- asking --------------------------------------------------------------------------------------------------

    def move(self, partition: Partition, target_dir: str) -> None:
        """Let a partition lie in another log dir; returns at once.

        Raises StorageError if that dir fails at once; it is offline then.
        """
        running = self._moves.get(TopicPartition(partition.topic, partition.index))
        if running is None:
            if partition.log.log_dir != target_dir and not self._closed:
                self._start(partition, self._create_future(partition, target_dir))
            return
        mover = running.mover
        running.next_dir = target_dir
        if mover.target_dir != target_dir:
            mover.post(Cancelled(f"to go to {target_dir}" if target_dir != mover.source_dir else "to stay"))

    def resume(self, futures: Mapping[TopicPartition, Sequence[str]]) -> None:
        """Go on with what an earlier run of the node left; what leads nowhere is removed."""
        now_ms = self.host.runtime.clock.now_ms()
        for topic_partition, paths in futures.items():
            partition = self._partitions.get(*topic_partition)
            for path in paths:
                target_dir = path.rpartition("/")[0]
                is_wanted = (
                    partition is not None
                    and topic_partition not in self._moves
                    and partition.log.log_dir != target_dir
                    and target_dir in self.host.logs.online_dirs
                )
                if is_wanted and partition is not None:
                    self._start(partition, path)
                elif topic_partition not in self.host.logs.withheld:
                    self.host.logs.schedule_removal(path, now_ms)

    def _create_future(self, partition: Partition, target_dir: str) -> str:
        """Create the directory of a future log, so that a node which is killed now goes on with the move."""
        topic_partition = TopicPartition(partition.topic, partition.index)
        name = marked_name(topic_partition, DirectoryKind.FUTURE, self.host.runtime.new_uuid())
        try:
            with blaming(target_dir):
                self.host.runtime.fs.makedirs(f"{target_dir}/{name}")
        except StorageError as error:
            if not has_no_room(error):
                self.host.logs.on_dir_failure(target_dir, error)
            raise
        return f"{target_dir}/{name}"

    def _start(self, partition: Partition, future_path: str) -> None:
        mover = Mover(self.host, partition, future_path)
        move = _Move(mover)
        self._moves[TopicPartition(partition.topic, partition.index)] = move
        logger.info("moving %s-%d from %s to %s", partition.topic, partition.index, mover.source_dir, mover.target_dir)
        move.task = self._spawn(self._run(move))

    async def _run(self, move: _Move) -> None:
        mover = move.mover
        partition = mover.partition
        topic_partition = TopicPartition(partition.topic, partition.index)
        outcome = MoveOutcome.FAILED
        try:
            finish = await mover.run(self._slots)
            outcome = finish.outcome
            self._count(mover, finish)
        except InvariantError as error:
            self._fail(error)
        except Exception:
            # The copy stays where it is; another request or the next start goes on with it.
            logger.exception("the move of %s to %s broke off", topic_partition, mover.target_dir)
            self.stats.failed += 1
        finally:
            self.stats.bytes_written += mover.copy.bytes_written
            del self._moves[topic_partition]
        self._go_on(move, outcome)

    def _go_on(self, move: _Move, outcome: MoveOutcome) -> None:
        """Start the next move if the partition is wanted elsewhere by now."""
        partition, wanted = move.mover.partition, move.next_dir
        # Another one of the same name may be here by now.
        current = self._partitions.get(partition.topic, partition.index)
        if wanted is None or current is None or outcome is MoveOutcome.SUSPENDED:
            return
        has_failed = wanted == move.mover.target_dir and outcome is MoveOutcome.FAILED
        if (current is partition and has_failed) or wanted not in self.host.logs.online_dirs:
            return
        with suppress(StorageError):
            self.move(current, wanted)

    def _count(self, mover: Mover, finish: Finish) -> None:
        partition, stats = mover.partition, self.stats
        stats.moved += finish.outcome is MoveOutcome.MOVED
        stats.cancelled += finish.outcome is MoveOutcome.CANCELLED
        stats.failed += finish.outcome is MoveOutcome.FAILED
        logger.log(
            logging.WARNING if finish.outcome is MoveOutcome.FAILED else logging.INFO,
            "the move of %s-%d from %s to %s: %s%s",
            partition.topic,
            partition.index,
            mover.source_dir,
            mover.target_dir,
            finish.outcome.value,
            f" ({finish.reason})" if finish.reason else "",
        )

    # -- what happens elsewhere ----------------------------------------------------------------------------------

    def on_stop(self, partition: Partition) -> None:
        """End the move of a partition that is no longer hosted here."""
        move = self._moves.get(TopicPartition(partition.topic, partition.index))
        if move is not None and move.mover.partition is partition:
            move.next_dir = None
            move.mover.post(Stopped())

    def on_dir_failure(self, log_dir: str, _lost: Sequence[TopicPartition] = ()) -> None:
        """End the moves of a log dir that is lost."""
        for move in self._moves.values():
            if move.mover.target_dir == log_dir:
                move.mover.post(TargetFailed(f"log dir {log_dir} is offline"))
            elif move.mover.source_dir == log_dir:
                move.mover.post(SourceFailed(f"log dir {log_dir} is offline"))

    async def close(self) -> None:
        """Stop all moves so that the next start can go on with them; swaps that have begun are completed."""
        self._closed = True
        moves = list(self._moves.values())
        for move in moves:
            move.mover.post(Suspended())
        tasks = [move.task for move in moves if move.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # -- looking -------------------------------------------------------------------------------------------------

    def place_of(self, partition: Partition) -> str:
        """Return the log dir that the controller is to know for a replica: the target once a move has reported it."""
        move = self._moves.get(TopicPartition(partition.topic, partition.index))
        if move is not None and move.mover.partition is partition and move.mover.plan.is_bound_for_target:
            return move.mover.target_dir
        return partition.log.log_dir

    def progress(self) -> list[MoveProgress]:
        """Return how far all moves are, also those that wait in line."""
        return [
            MoveProgress(
                each.mover.partition.topic,
                each.mover.partition.index,
                each.mover.source_dir,
                each.mover.target_dir,
                each.mover.plan.state,
                each.mover.copy.size_bytes,
                each.mover.partition.log.size_bytes,
                each.mover.copy.offset_lag,
                each.mover.bytes_per_second,
            )
            for each in self._moves.values()
        ]
