"""Writes the checkpoints of all log dirs: recovery points, high watermarks and log starts of the logs in each.

Older offsets never replace newer ones: one save follows the other. A log that is about to move to another dir is in
the checkpoints of both (`begin_transit`), so that whichever of its two directories a crash leaves, the offsets of it
are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from crabka.errors import StorageError
from crabka.log.dirs.log_dir import CheckpointOffsets

if TYPE_CHECKING:
    from crabka.ids import TopicPartition
    from crabka.log.dirs.log_dir import LogDir
    from crabka.log.dirs.log_dirs import LogDirs
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Threads

# At a few microseconds each a turn of the loop takes some milliseconds.
LOGS_PER_TURN: Final = 1000

Choose = Callable[["list[PartitionLog]"], CheckpointOffsets]


class Checkpointing:
    """The checkpoints of one node. Methods run on the loop and wait for disks in threads, unless they say otherwise."""

    def __init__(
        self,
        threads: Threads,
        dirs: LogDirs,
        logs: Mapping[TopicPartition, PartitionLog],
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        """`logs` are those of the node as they come and go; a dir whose disk fails is reported to `on_failure`."""
        self._threads = threads
        self._dirs = dirs
        self._logs = logs
        self._on_failure = on_failure
        # Logs about to move to another dir -> from where, to where.
        self._transits: dict[PartitionLog, tuple[str, str]] = {}
        # Held while checkpoints are written.
        self.turn = asyncio.Lock()

    async def save_all(self, paths: Iterable[str]) -> None:
        """Write everything of these dirs."""
        await self._save(paths, all_offsets)

    async def save_recovery_points(self, paths: Iterable[str]) -> None:
        """Write the recovery points of these dirs."""
        await self._save(paths, lambda logs: CheckpointOffsets(recovery_points=_recovery_points(logs)))

    async def save_log_starts(self, paths: Iterable[str]) -> None:
        """Write the log starts of these dirs."""
        await self._save(paths, lambda logs: CheckpointOffsets(log_starts=_log_starts(logs)))

    async def _save(self, paths: Iterable[str], choose: Choose) -> None:
        async with self.turn:
            online = [path for path in self._with_transits(paths) if self._dirs.is_online(path)]
            chosen = [await self._choose(path, choose) for path in online]
            writes = [
                self._threads.submit(log_dir.write_checkpoints, offsets, turn) for log_dir, offsets, turn in chosen
            ]
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            for (log_dir, offsets, turn), outcome in zip(chosen, outcomes, strict=True):
                if isinstance(outcome, OSError):
                    self._on_failure(log_dir.path, outcome)
                elif isinstance(outcome, BaseException):
                    raise outcome
                elif None not in offsets:
                    log_dir.forget_gone(turn)

    async def _choose(self, path: str, choose: Choose) -> tuple[LogDir, CheckpointOffsets, int]:
        """Return what to write for a dir. Many logs are visited in turns of the loop.

        A log that is cut meanwhile may be saved as it was: the cut is saved in a turn of its own after this one, and
        nothing is appended before. The number is taken first, so that a log that is deleted meanwhile counts as saved.
        """
        log_dir = self._dirs[path]
        turn = log_dir.next_turn()
        logs = self.logs_in(path)
        found = choose(logs[:LOGS_PER_TURN])
        for start in range(LOGS_PER_TURN, len(logs), LOGS_PER_TURN):
            await asyncio.sleep(0)
            more = choose(logs[start : start + LOGS_PER_TURN])
            for known, added in zip(found, more, strict=True):
                if known is not None and added is not None:
                    known.update(added)
        return log_dir, found, turn

    def logs_in(self, path: str) -> list[PartitionLog]:
        """Return the logs whose offsets the checkpoints of a dir hold: also those that are about to move there."""
        arriving = [log for log, (_, target) in self._transits.items() if target == path and log.log_dir != path]
        return [*(log for log in self._logs.values() if log.log_dir == path), *arriving]

    def forget_gone(self, path: str) -> None:
        """Write the checkpoints without deleted logs: a new one of the same name must not get their offsets.

        Waits for the disk, but only where a topic is created again before the next regular checkpoint. Raises
        StorageError.
        """
        log_dir = self._dirs[path]
        turn = log_dir.next_turn()
        try:
            log_dir.write_checkpoints(all_offsets(self.logs_in(path)), turn)
        except OSError as error:
            raise StorageError(path, f"cannot write the checkpoints: {error}") from error
        log_dir.forget_gone(turn)

    # -- logs that go to another dir -----------------------------------------------------------------------------

    async def begin_transit(self, log: PartitionLog, target: str) -> None:
        """Add a log that is about to move to the checkpoints of another dir, durably."""
        self._transits[log] = (log.log_dir, target)
        await self.save_all([target])

    async def end_transit(self, log: PartitionLog) -> None:
        """Leave a log only in the checkpoints of the dir that it is in now."""
        transit = self._transits.get(log)
        if transit is None:
            return
        # What was saved for the dir that it left, while that was so, belongs to the one where it is.
        await self.save_all(transit)
        self._transits.pop(log, None)
        left = [path for path in transit if path != log.log_dir]
        for path in left:
            self._dirs[path].note_gone(log.topic_partition)
        await self.save_all(left)

    def forget_transit(self, log: PartitionLog) -> None:
        """Note that a log is deleted."""
        self._transits.pop(log, None)

    def _with_transits(self, paths: Iterable[str]) -> list[str]:
        chosen = dict.fromkeys(paths)
        for transit in self._transits.values():
            if not chosen.keys().isdisjoint(transit):
                chosen.update(dict.fromkeys(transit))
        return list(chosen)


def all_offsets(logs: list[PartitionLog]) -> CheckpointOffsets:
    """Return all offsets of logs that checkpoints hold."""
    high_watermarks = {log.topic_partition: log.durability.checkpoint_high_watermark for log in logs}
    return CheckpointOffsets(_recovery_points(logs), high_watermarks, _log_starts(logs))


def _recovery_points(logs: list[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.durability.checkpoint_recovery_point for log in logs}


def _log_starts(logs: list[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.log_start_offset for log in logs if log.durability.needs_start_checkpoint()}
