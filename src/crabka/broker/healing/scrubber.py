"""Checks the logs of a node in the background and has repaired what is damaged.

`ScrubSchedule` decides what comes next, `SegmentCheck` reads in threads, the log takes what was found, `RangeMender`
puts batches back. One segment at a time, in small steps with rests between them, so that neither the loop nor the disk
nor a core is taken for long. Each damage and each repair is one line of the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.broker.healing.mender import MendResult
from crabka.broker.healing.rebuilder import RebuildRefusedError
from crabka.errors import InvariantError, StorageError
from crabka.log.healing.paced_steps import PacedSteps
from crabka.log.healing.scrub_schedule import ScrubProgress, ScrubSchedule
from crabka.log.healing.scrub_settings import FIRST_PASS_MS, ScrubSettings
from crabka.log.healing.segment_check import SegmentCheck
from crabka.log.healing.small_files_check import check_small_files
from crabka.log.partition.healing import sync_files, write_rebuilt_indexes

if TYPE_CHECKING:
    from crabka.broker.healing.dir_files import DirFiles
    from crabka.broker.healing.mender import RangeMender
    from crabka.broker.healing.rebuilder import ReplicaRebuilder
    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.ids import TopicPartition
    from crabka.log.cleaner.cleaner import LogCleaner
    from crabka.log.dirs.log_manager import LogManager
    from crabka.log.healing.damage import DamagedRange
    from crabka.log.healing.scrub_schedule import ScrubJob
    from crabka.log.healing.segment_check import CheckTarget, LogCheckFindings
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Runtime

logger = logging.getLogger(__name__)

_URGENT_CPU_PERCENT: Final = 50
_MAX_WAIT_MS: Final = 60_000


@dataclass(slots=True)
class ScrubStats:
    """What the checks have done since the node started."""

    bytes_checked: int = 0
    segments_checked: int = 0
    ranges_found: int = 0
    ranges_repaired: int = 0
    files_repaired: int = 0
    replicas_rebuilt: int = 0
    progress: ScrubProgress = field(default_factory=ScrubProgress)


class LogScrubber:
    """The checks of one node. All methods run on the loop."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        partitions: PartitionRegistry,
        mender: RangeMender,
        *,
        rebuilder: ReplicaRebuilder,
        cleaner: LogCleaner,
        dir_files: DirFiles,
        settings: Callable[[], ScrubSettings],
        node_id: int = 0,
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._partitions = partitions
        self._mender = mender
        self._rebuilder = rebuilder
        self._cleaner = cleaner
        self._dir_files = dir_files
        self._settings = settings
        self._node_id = node_id
        self._schedule = ScrubSchedule()
        self._trigger = ""
        self._wake = asyncio.Event()
        # What was logged already.
        self._logged: set[tuple[TopicPartition, DamagedRange]] = set()
        self.stats = ScrubStats(progress=self._schedule.progress)
        self._steps = PacedSteps(runtime, settings, self.stats, urgent_cpu_percent=_URGENT_CPU_PERCENT)

    def suspect(self, topic_partition: TopicPartition, base_offset: int, reason: str) -> None:
        """Check a segment as soon as possible, because a reader found it inconsistent."""
        if self._schedule.suspect(topic_partition, base_offset, self._runtime.clock.now_ms()):
            logger.debug("%s is checked from offset %d on: %s", topic_partition, base_offset, reason)
            self._wake.set()

    def suspect_offset(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """Check the segment that holds an offset as soon as possible."""
        log = self._logs.get(topic_partition)
        if log is not None:
            self.suspect(topic_partition, log.healing.segment_of(offset).base_offset, reason)

    def settings_changed(self) -> None:
        """Take over settings; a new trigger begins a pass."""
        trigger = self._settings().trigger
        if trigger != self._trigger:
            self._trigger = trigger
            self._schedule.hasten()
        self._wake.set()

    def damaged(self) -> list[tuple[PartitionLog, DamagedRange]]:
        """Return what is damaged now."""
        return [(log, each) for log in self._logs if log.healing.is_damaged for each in log.healing.damage]

    async def run(self) -> None:
        """Check and repair until cancelled."""
        settings = self._settings()
        self._trigger = settings.trigger
        self._schedule.begin(self._runtime.clock.now_ms() + min(FIRST_PASS_MS, settings.interval_ms))
        while True:
            self._wake.clear()
            if not await self._do_next():
                wait_ms = min(self._schedule.wait_ms(self._runtime.clock.now_ms()), _MAX_WAIT_MS)
                try:
                    async with asyncio.timeout(max(wait_ms, 1) / 1000):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _do_next(self) -> bool:
        """Do what is due; return False if nothing is."""
        now_ms, settings = self._runtime.clock.now_ms(), self._settings()
        retry = self._schedule.next_retry(now_ms)
        if retry is not None:
            await self._guarded(retry, self._repair_log)
            return True
        job = self._schedule.next_job(now_ms, self._order, is_enabled=settings.is_enabled)
        if job is not None:
            await self._guarded(job.topic_partition, lambda log: self._check_log(log, job))
            self._schedule.done(job)
        if self._schedule.end_pass(self._runtime.clock.now_ms(), settings.interval_ms):
            await self._check_dir_files()
            found = len(self.damaged())
            logger.log(
                logging.WARNING if found else logging.INFO, "all logs were checked: %d damaged ranges are left", found
            )
        return job is not None

    def _order(self) -> list[TopicPartition]:
        # Each start of the node begins elsewhere, so that all logs get their turn if it starts often.
        logs = [log.topic_partition for log in self._logs]
        start = self._runtime.rng.randrange(len(logs)) if logs else 0
        return logs[start:] + logs[:start]

    async def _guarded(self, topic_partition: TopicPartition, work: Callable[[PartitionLog], Awaitable[None]]) -> None:
        log = self._logs.get(topic_partition)
        if log is None:
            return
        try:
            await work(log)
        except FileNotFoundError as error:
            # Retention, a move or a deletion was faster.
            logger.debug("%s changed while it was checked: %s", topic_partition, error)
        except (OSError, StorageError) as error:
            if self._is_open(log):
                self._logs.on_dir_failure(log.log_dir, error)
        except InvariantError:
            raise
        except Exception:
            # Whatever the data make of a check must not end the checks of other logs.
            logger.exception("the check of %s failed", topic_partition)

    def _is_open(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log

    # -- checking ------------------------------------------------------------------------------------------------

    async def _check_log(self, log: PartitionLog, job: ScrubJob) -> None:
        if job.base_offsets is None:
            await self._check_small_files(log)
        for base_offset in log.segment_base_offsets:
            if not self._is_open(log):
                return
            if job.base_offsets is None or base_offset in job.base_offsets:
                await self._check_segment(log, base_offset, is_urgent=job.is_urgent)
        if log.healing.is_damaged:
            await self._repair_log(log)

    async def _check_segment(self, log: PartitionLog, base_offset: int, *, is_urgent: bool) -> bool:
        """Check one segment and put right what follows from its batches; return whether it could be judged."""
        target = log.healing.begin_check(base_offset)
        if target is None:
            return False
        check = SegmentCheck(target)
        await self._steps.run(check.steps(), is_urgent=is_urgent)
        findings = check.findings
        if findings is None or not self._is_open(log) or not log.healing.is_current(target):
            return False
        self.stats.segments_checked += 1
        await self._take(log, target, findings)
        return True

    async def _take(self, log: PartitionLog, target: CheckTarget, findings: LogCheckFindings) -> None:
        submit = self._runtime.threads.submit
        if findings.indexes is not None:
            await submit(write_rebuilt_indexes, target.fs, target.segment, findings.indexes)
            if not self._is_open(log):
                return
        repairs = log.healing.take_findings(target, findings)
        for reason in repairs.done:
            self.stats.files_repaired += 1
            logger.warning("%s: repaired from the batches of the log: %s", log.topic_partition, reason)
        if repairs.done:
            await submit(sync_files, target.fs, repairs.paths)
            await self._logs.flush_log(log)
        for damaged in findings.damaged:
            self._log_damage(log, damaged)

    async def _check_small_files(self, log: PartitionLog) -> None:
        submit = self._runtime.threads.submit
        if log.leader_epochs.dirty:
            # What the file holds cannot be judged before.
            await self._logs.flush_log(log)
        findings = await submit(check_small_files, log.healing.begin_small_check())
        reasons = findings.reasons
        if not reasons or not self._is_open(log):
            return
        for job in log.healing.rewrite_small_files(findings):
            await submit(job)
        await self._logs.flush_log(log)
        for reason in reasons:
            self.stats.files_repaired += 1
            logger.warning("%s: written anew: %s", log.topic_partition, reason)

    async def _check_dir_files(self) -> None:
        for reason in await self._dir_files.heal():
            self.stats.files_repaired += 1
            logger.warning("%s", reason)

    def _log_damage(self, log: PartitionLog, damaged: DamagedRange) -> None:
        key = (log.topic_partition, damaged)
        if key not in self._logged:
            self._logged.add(key)
            self.stats.ranges_found += 1
            logger.warning(
                "%s: offsets %d to %d are damaged, bytes %d to %d of %s: %s",
                log.topic_partition,
                damaged.offset,
                damaged.end_offset - 1,
                damaged.position,
                damaged.end_position - 1,
                log.healing.segment_of(damaged.offset).log_path,
                damaged.reason,
            )

    # -- repairing -----------------------------------------------------------------------------------------------

    async def _repair_log(self, log: PartitionLog) -> None:
        """Try to repair all that is damaged in a log, and try again later if something stays so."""
        partition = self._partitions.get(log.topic, log.partition)
        for damaged in list(log.healing.damage):
            if not self._is_open(log):
                return
            result = MendResult("", ["the partition is not hosted yet"])
            if partition is not None and partition.log is log:
                result = await self._mender.mend(partition, damaged)
            if result.source:
                await self._verify(log, damaged, result.source)
            elif partition is None or not await self._begin_anew(partition, result):
                self._give_up(log, damaged, result.reasons)
        if log.healing.is_damaged and self._is_open(log):
            self._schedule.retry(log.topic_partition, self._runtime.clock.now_ms())

    async def _begin_anew(self, partition: Partition, result: MendResult) -> bool:
        """Drop a replica and fetch it again, if no other way is left and others hold everything."""
        if not result.has_misfit:
            # No other copy could be asked: that may change.
            return False
        reasons = result.reasons
        try:
            await self._rebuilder.rebuild(partition)
        except RebuildRefusedError as error:
            reasons.append(f"the replica cannot be fetched anew: {error}")
            return False
        self.stats.replicas_rebuilt += 1
        logger.warning(
            "%s-%d: this replica gave up its part, dropped its damaged log and follows from %d on: %s",
            partition.topic,
            partition.index,
            partition.log.log_start_offset,
            "; ".join(reasons),
        )
        return True

    async def _verify(self, log: PartitionLog, damaged: DamagedRange, source: str) -> None:
        await self._check_segment(log, damaged.base_offset, is_urgent=True)
        if log.healing.damage.at(damaged.offset) is not None:
            return
        self.stats.ranges_repaired += 1
        self._logged = {each for each in self._logged if each[1] != damaged or each[0] != log.topic_partition}
        self._cleaner.forgive(log.topic_partition)
        logger.warning(
            "%s: offsets %d to %d are repaired from %s: %s",
            log.topic_partition,
            damaged.offset,
            damaged.end_offset - 1,
            source,
            damaged.reason,
        )

    def _give_up(self, log: PartitionLog, damaged: DamagedRange, reasons: list[str]) -> None:
        """Name what stays damaged and what helps, once."""
        key = (log.topic_partition, damaged._replace(reason="not repaired"))
        if key in self._logged:
            return
        self._logged.add(key)
        logger.error(
            "%s: offsets %d to %d in %s stay damaged, because no other copy has them (%s). They are answered with "
            "CORRUPT_MESSAGE, all others are served. Start a broker that has a replica, and they are repaired from it; "
            "`crabka log-dirs check --broker %d` shows what is damaged and checks again.",
            log.topic_partition,
            damaged.offset,
            damaged.end_offset - 1,
            log.healing.segment_of(damaged.offset).log_path,
            "; ".join(reasons),
            self._node_id,
        )
