"""The tasks of one hosted partition: two loops for a leader, copying and expiry, and one for a follower.

A task runs at once, then at every `remote.log.manager.task.interval.ms`; failures are retried with a growing pause. A
loop that is stopped first ends its current segment. A gate in front of each loop waits until the metadata is read to
its end and the tier is not being emptied.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.broker.tiering.copy.copier import CustomMetadataTooLargeError, note_copied_offset
from crabka.errors import InvariantError, StorageError
from crabka.remote.errors import NotReadyError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Container, Coroutine

    from crabka.broker.tiering.copy.copier import CopyTask
    from crabka.broker.tiering.expire.purge import TierPurge
    from crabka.broker.tiering.tools import TierTools
    from crabka.config.server import ServerConfig
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import TopicIdPartition

    RunOnce = Callable[[], Awaitable[None]]

logger = logging.getLogger(__name__)

_DOUBLINGS = 30


class TaskBackoff:
    """Pauses after consecutive failures, by `remote.log.manager.task.retry.*`, with jitter."""

    __slots__ = ("_config", "_failures", "_rng")

    def __init__(self, config: Callable[[], ServerConfig], rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """Start with the shortest pause again after a success."""
        self._failures = 0

    def next_ms(self) -> float:
        """Count a failure and return the pause."""
        config = self._config()
        longest_ms = config.remote_log_manager_task_retry_backoff_max_ms
        pause_ms = min(config.remote_log_manager_task_retry_backoff_ms << min(self._failures, _DOUBLINGS), longest_ms)
        self._failures += 1
        jitter = config.remote_log_manager_task_retry_jitter
        return min(pause_ms * self._rng.uniform(1 - jitter, 1 + jitter), longest_ms)


class RepeatedTask:
    """Runs something repeatedly until it is stopped."""

    def __init__(self, tools: TierTools, name: str, *, on_failure: Callable[[Exception], None]) -> None:
        """`on_failure` receives failures that are not of the tier: of the local disk, or of an invariant."""
        self._tools = tools
        self._name = name
        self._on_failure = on_failure
        self._stopped = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Return whether it has not been stopped."""
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Let it end after its current run."""
        self._stopped.set()

    async def run(self, run_once: RunOnce) -> None:
        """Run until `stop`, or until another run cannot succeed."""
        backoff = TaskBackoff(self._tools.config, self._tools.runtime.rng)
        while self.is_wanted:
            pause_ms = await self._try(run_once, backoff)
            if pause_ms is None:
                return
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._stopped.wait()
            except TimeoutError:
                continue

    async def _try(self, run_once: RunOnce, backoff: TaskBackoff) -> float | None:
        """Run once; return the pause before the next run, None to give up."""
        try:
            await run_once()
        except NotReadyError as error:
            logger.debug("%s: %s", self._name, error)
            return backoff.next_ms()
        except CustomMetadataTooLargeError as error:
            # No other copy would end differently (Kafka's RLMCopyTask ends, too).
            logger.error("Copying %s ends: %s", self._name, error)  # noqa: TRY400 - it says all
            return None
        except (StorageError, InvariantError) as error:
            self._on_failure(error)
            return None
        except Exception as error:
            pause_ms = backoff.next_ms()
            logger.warning("Tiering %s continues in %d ms: %s", self._name, pause_ms, error, exc_info=error)
            return pause_ms
        backoff.reset()
        return self._tools.config().remote_log_manager_task_interval_ms


class PartitionTasks:
    """The loops of a partition in one role."""

    def __init__(
        self,
        tools: TierTools,
        partition: TopicIdPartition,
        source: PartitionLog,
        *,
        is_leader: bool,
        leader_epoch: int,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._task = RepeatedTask(tools, str(partition), on_failure=on_failure)
        self.log = source
        self.is_leader = is_leader
        self.leader_epoch = leader_epoch
        # Called when the epoch changes in the same role.
        self.on_epoch: Callable[[], None] = lambda: None
        self.loops: list[asyncio.Task[Any]] = []

    @property
    def is_wanted(self) -> bool:
        """Return whether the loops have not been stopped."""
        return self._task.is_wanted

    def stop(self) -> None:
        """Let all loops end after their current run."""
        self._task.stop()

    def start(self, start_task: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]], run_once: RunOnce) -> None:
        """Start another loop."""
        self.loops.append(start_task(self._task.run(run_once)))

    def take_epoch(self, leader_epoch: int) -> None:
        """Continue in the same role in another epoch; other brokers may have led in between."""
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.on_epoch()

    async def wait_ended(self) -> None:
        """Wait until all loops have ended."""
        if self.loops:
            await asyncio.wait(self.loops)


class MetadataGate:
    """Ensures that this broker has read what its predecessors wrote of a partition, once per epoch of its role."""

    def __init__(self, tools: TierTools, partition: TopicIdPartition) -> None:
        self._tools = tools
        self._partition = partition
        # The number of epochs that began, and the last of them for which all is read.
        self._began = 1
        self._read = 0

    def renew(self) -> None:
        """Note that another epoch began, before which other brokers may have written."""
        self._began += 1

    async def catch_up(self) -> None:
        """Return when all is read. Raises NotReadyError."""
        metadata = self._tools.metadata
        metadata.require_ready(self._partition)
        began = self._began
        if began != self._read:
            await metadata.catch_up(self._partition)
            self._read = began


class FollowerTask:
    """What a follower does: it notes how much is in the tier, so that it may delete that locally (RLMFollowerTask)."""

    def __init__(self, tools: TierTools, partition: TopicIdPartition, source: PartitionLog) -> None:
        self._tools = tools
        self._partition = partition
        self._log = source
        self._gate = MetadataGate(tools, partition)
        self.renew = self._gate.renew

    async def run_once(self) -> None:
        """Note in the log up to where the tier holds all of it. Raises NotReadyError."""
        await self._gate.catch_up()
        metadata = self._tools.metadata
        metadata.require_ready(self._partition)
        note_copied_offset(metadata, self._partition, self._log)


class LeaderGate:
    """Besides waiting for the metadata, refuses to run while all that the tier has of a partition is being removed."""

    def __init__(
        self,
        tools: TierTools,
        purge: TierPurge,
        copying: CopyTask,
        *,
        partition: TopicIdPartition,
        source: PartitionLog,
        removing: Container[TopicIdPartition],
    ) -> None:
        """`removing` are the partitions that this broker empties because they were not tiered when it began."""
        self._tools = tools
        self._purge = purge
        self._copying = copying
        self._partition = partition
        self._log = source
        self._removing = removing
        self._gate = MetadataGate(tools, partition)

    def renew(self) -> None:
        """Note that another epoch began: what was seen in the tier before has to be verified again."""
        self._gate.renew()
        self._copying.start_over()

    async def copy(self) -> None:
        """Copy; before that, finish or withdraw a removal that another broker began."""
        await self._enter()
        if self._tools.metadata.active_notices(self._partition):
            self._log.tiering.note_remote_offset(-1)
            self._copying.start_over()
            await self._purge.settle(self._partition, self._log)
        await self._copying.run_once()

    async def run(self, run_once: RunOnce) -> None:
        """Run something while nothing is removed and all is read. Raises NotReadyError otherwise."""
        await self._enter()
        if self._tools.metadata.active_notices(self._partition):
            raise NotReadyError(f"what the tier has of {self._partition} is being removed")
        await run_once()

    async def _enter(self) -> None:
        await self._gate.catch_up()
        if self._partition in self._removing:
            self._log.tiering.note_remote_offset(-1)
            raise NotReadyError(f"what the tier has of {self._partition} is being removed")
