"""All logs of a node, in one or several log dirs (JBOD).

Owns the log dirs, which log is where, and the duties that go over many logs: opening, checkpoints and flushing;
`retention` and `removal` are objects of their own. A dir that fails goes offline with its logs while the others
continue. It knows no requests and no leadership. Methods run on the loop; the node calls the duties from its timers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.config.topic import TopicConfig
from crabka.errors import ConfigError, CorruptDataError, CrabkaError, OperationError, StorageError
from crabka.formats.file_names import DirectoryKind, marked_name
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpointing import LOGS_PER_TURN, Checkpointing, all_offsets
from crabka.log.dirs.deletions import Deletions
from crabka.log.dirs.dir_writer import DEFAULT_SLOW_APPEND_MS, DirWriter
from crabka.log.dirs.log_dir import LogDir, LogDirContent
from crabka.log.dirs.log_dirs import LogDirs
from crabka.log.dirs.log_flusher import LogFlusher
from crabka.log.dirs.log_removal import LogRemoval
from crabka.log.dirs.retention_runs import RetentionRuns
from crabka.log.partition.tierable import is_tierable
from crabka.log.recovery.recovery import DAY_MS, OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.descriptor_keeper import DescriptorKeeper
from crabka.log.segment.descriptors import LogDescriptors
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.thread_share import run_all

if TYPE_CHECKING:
    import uuid

    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Runtime

logger = logging.getLogger(__name__)

ConfigOf = Callable[[str], TopicConfig]
DamageListener = Callable[[TopicPartition, int, str], None]
FailureListener = Callable[[str, "list[TopicPartition]"], None]
Settle = Callable[[Mapping[str, LogDirContent]], None]
"""Decides between several directories of one log; changes the content, and the disk as well. Runs in a thread."""


class NewLog(NamedTuple):
    """A log to create; without a dir, the manager chooses the one with the fewest logs."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    config: TopicConfig
    log_dir: str | None


class LogManager:
    """The logs of one node. `load` must have run before anything else."""

    def __init__(
        self,
        runtime: Runtime,
        log_dirs: Sequence[str],
        *,
        producer_id_expiration_ms: int = DAY_MS,
        slow_append_ms: int = DEFAULT_SLOW_APPEND_MS,
        tiering: bool = True,
    ) -> None:
        """`tiering` says whether the node has a remote tier (`remote.log.storage.system.enable`).

        The limit of open files decides how many segments are open at a time.
        """
        self._runtime = runtime
        self._expiration_ms = producer_id_expiration_ms
        self._deletions = Deletions(runtime.fs)
        self.descriptors = LogDescriptors(runtime.open_file_limit, runtime.sync_together)
        self._context = SegmentContext(
            runtime.fs,
            rng=runtime.rng,
            handles=self.descriptors.sealed,
            open_segments=self.descriptors.active,
            tiering=tiering,
            schedule_deletion=self._deletions.schedule,
            report_damage=self.report_damage,
        )
        self._keeper = DescriptorKeeper(runtime.threads, self.descriptors.active, self.on_dir_failure)
        self._damage_listener: DamageListener | None = None
        self.cuts = self._context.cuts
        self.dirs = LogDirs(runtime.fs, log_dirs, self.cuts)
        self._writers = {
            path: DirWriter(runtime, path, slow_append_ms=slow_append_ms, on_failure=self.on_dir_failure)
            for path in log_dirs
        }
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.removal = LogRemoval(runtime, self.dirs, self._deletions, self.on_dir_failure)
        self._listeners: list[FailureListener] = []
        self._flusher = LogFlusher(self._writers)
        self._checkpoints = Checkpointing(runtime.threads, self.dirs, self._logs, self.on_dir_failure)
        self.retention = RetentionRuns(
            runtime.threads,
            self._logs,
            save_log_starts=self.save_log_starts,
            on_dir_failure=self.on_dir_failure,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        # Directories of logs that were being moved here, as `load` found them.
        self.futures: dict[TopicPartition, list[str]] = {}
        # Logs of which only an unfinished copy is left: a new one must not replace them.
        self.withheld: set[TopicPartition] = set()
        # Broker epoch of the last clean stop (BrokerRegistration.previousBrokerEpoch), -1 if a dir has none.
        self.previous_broker_epoch = -1

    # -- what is here --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return an open log, None if it is not here or its dir is offline."""
        return self._logs.get(topic_partition)

    @property
    def online_dirs(self) -> list[str]:
        """Paths of the log dirs that work."""
        return self.dirs.online

    @property
    def offline_dirs(self) -> list[str]:
        """Paths of the log dirs that failed."""
        return self.dirs.offline

    @property
    def online_directory_ids(self) -> list[uuid.UUID]:
        """Ids of the formatted log dirs that work, as the metadata names them (KIP-858)."""
        return self.dirs.ids_of(self.dirs.online)

    def directory_id(self, path: str) -> uuid.UUID | None:
        """Return the id of a log dir, None if it was never formatted."""
        return self.dirs.directory_id(path)

    def writer(self, path: str) -> DirWriter:
        """Return the writer of a log dir, which uses a thread while the dir is slow."""
        return self._writers[path]

    def offline_reason(self, path: str) -> str | None:
        """Return why a dir is offline, None if it works."""
        return self.dirs.offline_reason(path)

    # -- opening -------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take all dirs for this process; `load` does so if it was not done before.

        Raises ConfigError when another process holds a dir; a dir that fails otherwise goes offline.
        """
        for log_dir in self.dirs:
            try:
                if not log_dir.is_locked:
                    log_dir.open()
            except (OSError, CorruptDataError) as error:
                self.on_dir_failure(log_dir.path, error)

    def unlock(self) -> None:
        """Give all dirs back without touching them."""
        for log_dir in self.dirs:
            log_dir.close()

    async def load(self, config_of: ConfigOf | None = None, settle: Settle | None = None) -> None:
        """Lock and scan all dirs and open their logs in threads, recovering after an unclean stop.

        `settle` decides, before a log is opened, the outcome of moves that a stop interrupted. Raises ConfigError
        when another process holds a dir, or when a topic is tiered and the node has no tier; a dir that fails otherwise
        goes offline.
        """
        config_of = config_of or (lambda _topic: TopicConfig())
        self.descriptors.active.belong_to_this_thread()
        self.lock()
        contents = await self._scan()
        self.previous_broker_epoch = min((each.broker_epoch for each in contents.values()), default=-1)
        if settle is not None:
            await self._settle(contents, settle)
        for path, content in contents.items():
            try:
                await self._open_logs(self.dirs[path], content, config_of)
            except (OSError, StorageError, CorruptDataError) as error:
                self.on_dir_failure(path, error)

    async def _scan(self) -> dict[str, LogDirContent]:
        contents = {}
        for path in self.online_dirs:
            try:
                contents[path] = await self._runtime.threads.submit(self.dirs[path].scan)
            except (OSError, CorruptDataError) as error:
                self.on_dir_failure(path, error)
        return contents

    async def _settle(self, contents: dict[str, LogDirContent], settle: Settle) -> None:
        found = {path: list(content.logs) for path, content in contents.items()}
        while True:
            try:
                await self._runtime.threads.submit(settle, contents)
            except StorageError as error:
                # Without that dir the decision may be another.
                del contents[error.log_dir]
                self.on_dir_failure(error.log_dir, error)
            else:
                break
        for path, content in contents.items():
            self.dirs[path].keep(self.withheld, content)
            for topic_partition in found[path]:
                if topic_partition not in content.logs:
                    self.dirs[path].note_gone(topic_partition)
            for topic_partition, futures in content.futures.items():
                self.futures.setdefault(topic_partition, []).extend(futures)

    async def _open_logs(self, log_dir: LogDir, content: LogDirContent, config_of: ConfigOf) -> None:
        now_ms = self._runtime.clock.now_ms()
        await run_all(self._runtime.threads, self._openings(content, config_of, now_ms), on_result=self._take_in)
        for path in content.doomed:
            self._deletions.schedule(path, now_ms)
        if not content.clean and content.logs:
            logger.info("recovered %d logs in %s after an unclean stop", len(content.logs), log_dir.path)

    def _openings(
        self, content: LogDirContent, config_of: ConfigOf, now_ms: int
    ) -> Iterator[Callable[[], PartitionLog]]:
        """Yield a function for each log that opens it in a thread. Raises CorruptDataError, ConfigError."""
        for topic_partition, path in content.logs.items():
            if topic_partition in self._logs:
                raise CorruptDataError(path, f"{topic_partition} is in {self._logs[topic_partition].path} as well")
            options = OpenOptions(
                clean=content.clean,
                recovery_point=content.recovery_points.get(topic_partition, 0),
                log_start_offset=content.log_starts.get(topic_partition, 0),
                high_watermark=content.high_watermarks.get(topic_partition, 0),
                now_ms=now_ms,
                producer_id_expiration_ms=self._expiration_ms,
            )
            config = config_of(topic_partition.topic)
            if is_tierable(topic_partition.topic, config) and not self._context.tiering:
                # Opened without the tier, the log would lose its log start, and with it the records in the tier.
                raise ConfigError(
                    "You have to delete all topics with the property remote.storage.enable=true before disabling "
                    f"tiered storage cluster-wide; {topic_partition.topic} is one"
                )
            yield partial(open_log, self._context, path, topic_partition, config, options)

    def create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: TopicConfig, log_dir: str | None = None
    ) -> PartitionLog:
        """Create a log, in the dir with the fewest logs unless one is given; among equals, the one with most space.

        A log that exists is returned as it is. Raises StorageError when the disk fails or no dir is left.
        """
        existing = self._logs.get(topic_partition)
        if existing is not None:
            return existing
        self.removal.free_name(topic_partition)
        directory = log_dir if log_dir is not None else self.dirs.choose(self._counts())
        if self.dirs[directory].may_list(topic_partition):
            self._checkpoints.forget_gone(directory)
        log = self._creation(NewLog(topic_partition, topic_id, config, directory), directory)()
        self._logs[topic_partition] = log
        return log

    async def create_all(self, wanted: Iterable[NewLog]) -> None:
        """Create logs in threads, as `create` does one on the loop. A dir that fails meanwhile goes offline.

        Logs that could not be created are missing afterwards: `create` raises the reason. The caller makes sure that
        no log of these names is created or deleted meanwhile.
        """
        await self.removal.finish_renames()
        counts = self._counts()
        jobs: list[Callable[[], PartitionLog]] = []
        stale: dict[str, None] = {}
        for each in wanted:
            if each.topic_partition in self._logs or not self.online_dirs:
                continue
            directory = each.log_dir if each.log_dir is not None else self.dirs.choose(counts)
            counts[directory] += 1
            if self.dirs[directory].may_list(each.topic_partition):
                stale[directory] = None
            jobs.append(self._creation(each, directory))
        if stale:
            # A new log must not get the offsets of an earlier one of its name.
            await self._checkpoints.save_all(stale)
        try:
            await run_all(self._runtime.threads, jobs, on_result=self._take_in)
        except StorageError as error:
            self.on_dir_failure(error.log_dir, error)

    def _creation(self, wanted: NewLog, directory: str) -> Callable[[], PartitionLog]:
        topic_partition, topic_id, config, _ = wanted
        options = OpenOptions(clean=True, now_ms=self._runtime.clock.now_ms(), topic_id=topic_id)
        return partial(open_log, self._context, f"{directory}/{topic_partition}", topic_partition, config, options)

    def _take_in(self, log: PartitionLog) -> None:
        if self.dirs.is_online(log.log_dir):
            self._logs[log.topic_partition] = log
            self.descriptors.active.make_room()
        else:  # it failed while the log was created or opened
            log.close(clean=False)

    def _counts(self) -> Counter[str]:
        """Return how many logs each dir has; empty with one dir, where no choice is needed."""
        return Counter(log.log_dir for log in self._logs.values()) if len(self.online_dirs) > 1 else Counter()

    # -- taking away ---------------------------------------------------------------------------------------------

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename a log to `-delete`; its files go after `file.delete.delay.ms`. Unknown logs are fine."""
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        self.dirs[log.log_dir].note_gone(topic_partition)
        self._checkpoints.forget_transit(log)
        self.removal.rename(log)

    def delete_later(self, topic_partition: TopicPartition) -> None:
        """Delete a log as `delete` does, but leave the rename to `LogRemoval.finish_renames`."""
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            self.dirs[log.log_dir].note_gone(topic_partition)
            self._checkpoints.forget_transit(log)
            self.removal.rename_later(log)

    def mark_stray(self, topic_partition: TopicPartition) -> None:
        """Close a log that the metadata does not place here, and rename it to `-stray`."""
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        self.dirs[log.log_dir].note_gone(topic_partition)
        try:
            log.close(clean=True)
            name = marked_name(topic_partition, DirectoryKind.STRAY, self._runtime.new_uuid())
            path = log.moving.rename_directory(name)
        except StorageError as error:
            self.on_dir_failure(error.log_dir, error)
        else:
            logger.warning("the metadata does not place %s on this node: kept as %s", topic_partition, path)

    def subscribe_damage(self, listener: DamageListener) -> None:
        """Call `listener(log, base offset of a segment, reason)` whenever a reader finds damage."""
        self._damage_listener = listener

    def report_damage(self, topic_partition: TopicPartition, base_offset: int, reason: str) -> None:
        """Request a check of a segment. Only on the loop."""
        if self._damage_listener is not None:
            self._damage_listener(topic_partition, base_offset, reason)

    def subscribe_failures(self, listener: FailureListener) -> None:
        """Call `listener(dir, lost logs)` whenever a dir goes offline."""
        self._listeners.append(listener)

    def on_dir_failure(self, path: str, error: Exception | None = None) -> None:
        """Take a log dir offline with all its logs. A second report is ignored.

        If the process has no descriptor left, the error says nothing about the disk: the callers retry, and the dir
        stays online.
        """
        if self.descriptors.is_exhausted(error):
            return
        if not self.dirs.fail(path, str(error) if error is not None else "failed"):
            return
        lost = [topic_partition for topic_partition, log in self._logs.items() if log.log_dir == path]
        logger.error("log dir %s is offline with %d logs: %s", path, len(lost), error)
        for topic_partition in lost:
            self._logs.pop(topic_partition).close(clean=False)
        for listener in self._listeners:
            listener(path, lost)

    # -- duties --------------------------------------------------------------------------------------------------

    async def flush_log(self, log: PartitionLog) -> None:
        """Make the present content of a log durable, in a thread. A failure takes the dir offline."""
        await self._flusher.flush(log)

    async def rebuild_from_remote(
        self,
        log: PartitionLog,
        start_offset: int,
        *,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        producer_snapshot: bytes,
    ) -> None:
        """Let a follower's log restart after the records of the remote tier, safe from crashes.

        The caller makes sure that nothing is appended to the log meanwhile. Raises as `LogTiering.rebuild_from_remote`.
        """
        log.truncation.announce(0)
        try:
            await self.save_recovery_points([log.log_dir])
            if self._logs.get(log.topic_partition) is not log:
                raise OperationError(
                    ErrorCode.unknown_topic_or_partition, f"{log.topic_partition} is gone from this node"
                )
            log.tiering.rebuild_from_remote(
                start_offset,
                log_start_offset=log_start_offset,
                epochs=epochs,
                producer_snapshot=producer_snapshot,
                now_ms=self._runtime.clock.now_ms(),
            )
        finally:
            log.truncation.withdraw()
        await self._checkpoints.save_all([log.log_dir])

    def flush_dirty(self, now_ms: int) -> asyncio.Future[list[Any]]:
        """Flush in threads the logs with sealed segments not yet durable, or with `flush.ms` passed.

        The returned future may be ignored; failures take the dir offline.
        """
        return self._flusher.flush_dirty(self, now_ms)

    async def run_flush(self, now_ms: int) -> None:
        """Do the same in turns of the loop, and wait for it."""
        logs = list(self._logs.values())
        for start in range(0, len(logs), LOGS_PER_TURN):
            await asyncio.sleep(0)
            here = [log for log in logs[start : start + LOGS_PER_TURN] if self._logs.get(log.topic_partition) is log]
            self._flusher.flush_dirty(here, now_ms)
        await self._flusher.drain()

    async def save_checkpoints(self) -> None:
        """Write recovery points, high watermarks and log starts of all dirs, waiting for the disks in threads."""
        await self._checkpoints.save_all(self.online_dirs)

    async def save_recovery_points(self, paths: Iterable[str]) -> None:
        """Write the recovery points of these dirs: after a truncation, before the log is appended to again."""
        await self._checkpoints.save_recovery_points(paths)

    async def save_log_starts(self, paths: Iterable[str]) -> None:
        """Write the log starts of these dirs: after DeleteRecords, and before retention deletes."""
        await self._checkpoints.save_log_starts(paths)

    # -- moving between dirs -------------------------------------------------------------------------------------

    async def begin_transit(self, log: PartitionLog, target: str) -> None:
        """Add a log that is about to move to the checkpoints of another dir, durably."""
        await self._checkpoints.begin_transit(log, target)

    async def end_transit(self, log: PartitionLog) -> None:
        """Leave a log only in the checkpoints of the dir that it is in now."""
        await self._checkpoints.end_transit(log)

    def schedule_removal(self, path: str, due_ms: int) -> None:
        """Remove a directory at the first run of the deletions from `due_ms` on."""
        self._deletions.schedule(path, due_ms)

    # -- stopping ------------------------------------------------------------------------------------------------

    async def shutdown(self, broker_epoch: int = -1) -> None:
        """Close all logs cleanly, as `close` does, and give the dirs back."""
        await self.close(broker_epoch)
        self.unlock()

    async def close(self, broker_epoch: int = -1) -> None:
        """Close all logs cleanly, write the checkpoints and the mark of a clean stop; the dirs stay locked."""
        await self.removal.finish_renames()
        await self._flusher.drain()
        await self._keeper.drain()
        for writer in self._writers.values():
            await writer.drain()
        async with self._checkpoints.turn:
            await self._close_dirs({path: self._checkpoints.logs_in(path) for path in self.online_dirs}, broker_epoch)
        self._logs.clear()

    async def abandon(self) -> None:
        """Close the logs that a `load` opened before it failed, without a mark: others may need recovery."""
        logs = list(self._logs.values())
        self._logs.clear()
        await run_all(self._runtime.threads, (partial(log.close, clean=False) for log in logs))

    async def _close_dirs(self, by_dir: dict[str, list[PartitionLog]], broker_epoch: int) -> None:
        closing = [self._close_dir(path, logs, broker_epoch) for path, logs in by_dir.items()]
        outcomes = await asyncio.gather(*closing, return_exceptions=True)
        for path, outcome in zip(by_dir, outcomes, strict=True):
            if isinstance(outcome, (OSError, CrabkaError)):
                self.on_dir_failure(path, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

    async def _close_dir(self, path: str, logs: list[PartitionLog], broker_epoch: int) -> None:
        # Many at once: a disk syncs several files in about the time of one.
        await run_all(self._runtime.threads, (partial(log.close, clean=True) for log in logs))
        await self._runtime.threads.submit(self._mark_clean, path, logs, broker_epoch)

    def _mark_clean(self, path: str, logs: list[PartitionLog], broker_epoch: int) -> None:
        """Write the files that an opening without a scan needs. All logs are closed; runs in a thread."""
        offsets = all_offsets(logs)
        # All is durable, indexes as well, so the recovery points are the log ends, as Kafka leaves them.
        ends = {log.topic_partition: log.recovery_point for log in logs}
        self.dirs[path].write_checkpoints(offsets._replace(recovery_points=ends))
        if not self.withheld:
            # Logs that were not opened may never have been checked: the next start does that.
            self.dirs[path].write_clean_shutdown(broker_epoch)
