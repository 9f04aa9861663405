"""The log cleaner: finds the dirtiest compacted log, cleans it, and repeats until none needs it.

Owns the offsets up to which logs are clean (`cleaner-offset-checkpoint`, one file per log dir), the choice of the next
log, the throttle and the numbers. Reading and copying run in threads, step by step; the loop only puts results in
place. A log that cannot be cleaned is skipped and logged once; all others are still cleaned. One log at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError, InvariantError, StorageError
from crabka.ids import TopicPartition
from crabka.log.cleaner.cleaning_pass import CleaningView, GroupCopier, RecordFilter, load_offsets
from crabka.log.cleaner.offset_map import OffsetMap
from crabka.log.cleaner.throttle import CleanerThrottle
from crabka.runtime.turns import in_turns

if TYPE_CHECKING:
    import uuid

    from crabka.log.cleaner.plan import CleaningRange
    from crabka.log.dirs.log_manager import LogManager
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Runtime

logger = logging.getLogger(__name__)


class CleanerSettings(NamedTuple):
    """The settings of the node that cleaning goes by, read anew for each run."""

    enabled: bool
    dedupe_buffer_bytes: int
    load_factor: float
    max_bytes_per_second: float


@dataclass(slots=True)
class CleanerStats:
    """What the cleaner has done; a cleaning counts when its last segment is in place."""

    cleanings: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    last_cleaning_ms: int = 0
    # The largest dirty ratio that the last look at the logs found.
    max_dirty_ratio: float = 0.0
    uncleanable: int = 0


class _CleanEnd(NamedTuple):
    """Up to where a log is clean, as long as it is the same log and was not truncated."""

    topic_id: uuid.UUID | None
    truncations: int
    offset: int


class LogCleaner:
    """Cleans the logs of a node. All methods run on the loop; one run at a time."""

    def __init__(self, runtime: Runtime, logs: LogManager, settings: Callable[[], CleanerSettings]) -> None:
        self._runtime = runtime
        self._logs = logs
        self._settings = settings
        self._throttle = CleanerThrottle()
        self._clean: dict[TopicPartition, _CleanEnd] = {}
        self._loaded_dirs: set[str] = set()
        self._uncleanable: dict[TopicPartition, uuid.UUID | None] = {}
        # Logs that are being moved to another dir: their files must stay as they are.
        self._paused: set[TopicPartition] = set()
        self._busy: tuple[TopicPartition, asyncio.Future[None]] | None = None
        self.stats = CleanerStats()

    def is_uncleanable(self, topic_partition: TopicPartition) -> bool:
        """Return whether a log was set aside because cleaning it failed."""
        log = self._logs.get(topic_partition)
        return log is not None and self._uncleanable.get(topic_partition, _NOBODY) == log.topic_id

    def forgive(self, topic_partition: TopicPartition) -> None:
        """Clean a log again that was set aside: it was repaired."""
        self._uncleanable.pop(topic_partition, None)

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Leave a log alone until `resume`; returns when nothing of it is being cleaned."""
        self._paused.add(topic_partition)
        await self._load_checkpoints()
        while self._busy is not None and self._busy[0] == topic_partition:
            await asyncio.wait([self._busy[1]])

    def resume(self, topic_partition: TopicPartition) -> None:
        """Clean a log again when it is due."""
        self._paused.discard(topic_partition)

    async def save_checkpoints(self, paths: Iterable[str]) -> None:
        """Write how far the logs of these dirs are clean: a log came or went. Raises OSError."""
        for path in paths:
            if path in self._logs.online_dirs:
                await self._save_checkpoint(path)

    async def run(self) -> None:
        """Clean logs, the dirtiest first, until none is due."""
        while self._settings().enabled:
            await self._load_checkpoints()
            found = await self._dirtiest()
            if found is None or not await self._clean_log(*found):
                return

    # -- choosing --------------------------------------------------------------------------------------------------

    async def _dirtiest(self) -> tuple[PartitionLog, CleaningRange] | None:
        now_ms = self._runtime.clock.now_ms()
        best: tuple[PartitionLog, CleaningRange] | None = None
        self.stats.max_dirty_ratio = 0.0
        async for log in in_turns(list(self._logs)):
            first_dirty = self._first_dirty(log)
            if (
                not log.config.compact
                or self.is_uncleanable(log.topic_partition)
                or not log.cleaning.may_be_dirty(first_dirty)
            ):
                continue
            if log.topic_partition in self._paused:
                continue
            part = await self._survey(log, first_dirty, now_ms)
            if part is None:
                continue
            self.stats.max_dirty_ratio = max(self.stats.max_dirty_ratio, part.dirty_ratio)
            if part.is_due(log.config, now_ms) and (best is None or part.dirty_ratio > best[1].dirty_ratio):
                best = log, part
        self.stats.uncleanable = sum(self.is_uncleanable(each) for each in self._uncleanable)
        return best

    async def _survey(self, log: PartitionLog, first_dirty: int, now_ms: int) -> CleaningRange | None:
        try:
            return await self._runtime.threads.submit(log.cleaning.survey(first_dirty, now_ms))
        except FileNotFoundError:
            # Retention was faster.
            return None
        except OSError as error:
            self._logs.on_dir_failure(log.log_dir, error)
            return None

    def _first_dirty(self, log: PartitionLog) -> int:
        clean = self._clean.get(log.topic_partition)
        if clean is None or clean[:2] != (log.topic_id, log.cleaning.truncation_count):
            return log.log_start_offset
        return clean.offset

    # -- cleaning --------------------------------------------------------------------------------------------------

    async def _clean_log(self, log: PartitionLog, part: CleaningRange) -> bool:
        """Clean one log; return False if the disk failed, so that the others wait for the next run."""
        self._busy = (log.topic_partition, asyncio.get_running_loop().create_future())
        try:
            return await self._try_to_clean(log, part)
        finally:
            self._busy[1].set_result(None)
            self._busy = None

    async def _try_to_clean(self, log: PartitionLog, part: CleaningRange) -> bool:
        try:
            # Recovery checks unflushed records, and could not distinguish a hole of cleaning from a lost write.
            await self._flush(log, part)
            if not self._is_open(log):
                return False
            await self._pass_over(log, part)
        except InvariantError:
            raise
        except FileNotFoundError as error:
            logger.info("%s changed while it was cleaned: %s", log.topic_partition, error)
            return False
        except (OSError, StorageError) as error:
            if self._is_open(log):
                self._logs.on_dir_failure(log.log_dir, error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever the data make of the cleaner must not stop the node
            self._set_aside(log, error)
            if isinstance(error, CorruptDataError):
                for base_offset in log.segment_base_offsets:
                    self._logs.report_damage(log.topic_partition, base_offset, str(error))
        return True

    async def _flush(self, log: PartitionLog, part: CleaningRange) -> None:
        if log.durability.checkpoint_recovery_point < part.first_uncleanable:
            await self._logs.flush_log(log)
        await self._logs.save_recovery_points([log.log_dir])

    async def _pass_over(self, log: PartitionLog, part: CleaningRange) -> None:
        settings, truncations = self._settings(), log.cleaning.truncation_count
        view = log.cleaning.begin_pass(part, self._runtime.clock.now_ms())
        expected = part.first_uncleanable - part.first_dirty
        offsets = OffsetMap(settings.dedupe_buffer_bytes, settings.load_factor, expected)
        self.stats.bytes_read += await self._work(log, view, load_offsets(view, offsets))
        end_offset = offsets.latest_offset + 1
        if end_offset <= part.first_dirty:
            raise CorruptDataError(log.path, f"a batch has more than the {offsets.capacity} keys that fit in memory")
        if not await self._copy(log, view, offsets):
            return
        self._clean[log.topic_partition] = _CleanEnd(log.topic_id, truncations, end_offset)
        await self._save_checkpoint(log.log_dir)
        self.stats.cleanings += 1
        self.stats.last_cleaning_ms = self._runtime.clock.now_ms()
        logger.info("cleaned %s up to offset %d: %d keys", log.topic_partition, end_offset, len(offsets))

    async def _copy(self, log: PartitionLog, view: CleaningView, offsets: OffsetMap) -> bool:
        """Copy all groups and put them in place; return False if the log changed below the cleaner."""
        submit = self._runtime.threads.submit
        groups = await submit(log.cleaning.groups, view, offsets.latest_offset + 1)
        keep = await submit(RecordFilter, view, offsets)
        for group in groups:
            copier = GroupCopier(view, group, keep)
            try:
                worked = await self._work(log, view, copier.steps())
            except Exception:
                await submit(_discard_quietly, copier)
                raise
            cleaned = copier.cleaned
            is_in_place = (
                cleaned is not None
                and self._is_open(log)
                and log.topic_partition not in self._paused
                and log.cleaning.replace_segments(group, cleaned, self._runtime.clock.now_ms())
            )
            if not is_in_place or cleaned is None:
                await submit(_discard_quietly, copier)
                return False
            read = sum(segment.size for segment in group)
            self.stats.bytes_read += read
            self.stats.bytes_written += worked - read
        await submit(self._runtime.fs.fsync_dir, log.path)
        return True

    async def _work(self, log: PartitionLog, view: CleaningView, steps: Iterator[int]) -> int:
        """Do all steps in threads, with the rests that the throttle demands; return the bytes that they took."""
        total = 0
        while (size := await self._step(log, view, steps)) is not None:
            total += size
            now_ms = self._runtime.clock.monotonic_ms()
            rest_ms = self._throttle.rest_ms(size, self._settings().max_bytes_per_second, now_ms)
            if rest_ms >= 1:
                await asyncio.sleep(rest_ms / 1000)
        return total

    async def _step(self, log: PartitionLog, view: CleaningView, steps: Iterator[int]) -> int | None:
        # Batches that are decompressed here count as those of requests do.
        step = log.decompression.submit(self._runtime.threads, view.memory.step_bytes, next, steps, None)
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            # Nothing may be written any more once the log is closed.
            await asyncio.wait([step])
            raise

    def _is_open(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log

    def _set_aside(self, log: PartitionLog, error: Exception) -> None:
        if self._is_open(log):
            self._uncleanable[log.topic_partition] = log.topic_id
            logger.error("%s cannot be cleaned and is left as it is: %r", log.topic_partition, error)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    async def _load_checkpoints(self) -> None:
        for path in self._logs.online_dirs:
            if path not in self._loaded_dirs:
                self._loaded_dirs.add(path)
                try:
                    offsets = await self._runtime.threads.submit(self._logs.dirs[path].read_cleaner_checkpoint)
                except OSError as error:
                    self._logs.on_dir_failure(path, error)
                    continue
                for log in self._logs:
                    if log.log_dir == path and log.topic_partition in offsets:
                        clean = _CleanEnd(log.topic_id, log.cleaning.truncation_count, offsets[log.topic_partition])
                        self._clean.setdefault(log.topic_partition, clean)

    async def _save_checkpoint(self, path: str) -> None:
        offsets = {
            log.topic_partition: self._first_dirty(log)
            for log in self._logs
            if log.log_dir == path and log.topic_partition in self._clean and log.config.compact
        }
        await self._runtime.threads.submit(self._logs.dirs[path].write_cleaner_checkpoint, offsets)


_NOBODY = object()


def _discard_quietly(copier: GroupCopier) -> None:
    """Remove a copy that is no longer needed; files that stay are removed when the log is opened again."""
    try:
        copier.discard()
    except OSError as error:
        logger.warning("cannot remove a copy of the log cleaner: %s", error)
