"""The tasks of one hosted partition: two loops for a leader, copying and expiry, and one for a follower.

A task runs at once, then at every `remote.log.manager.task.interval.ms`; after a failure it comes back earlier at first
and then more and more rarely. A loop that is told to stop ends what it is doing with one segment, no more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.broker.tiering.backoff import TaskBackoff
from crabka.broker.tiering.copier import CustomMetadataTooLargeError
from crabka.errors import InvariantError, StorageError
from crabka.remote.errors import NotReadyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition_log import PartitionLog
    from crabka.remote.segments import TopicIdPartition

    RunOnce = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


class RepeatedTask:
    """Runs something again and again until it is told to stop."""

    def __init__(self, tools: TierTools, name: str, *, on_failure: Callable[[Exception], None]) -> None:
        """`on_failure` hears of what is more than a failure of the tier: of the local disk, or of an invariant."""
        self._tools = tools
        self._name = name
        self._on_failure = on_failure
        self._stopped = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether it shall go on."""
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Let it end when it has done what it is at."""
        self._stopped.set()

    async def run(self, run_once: RunOnce) -> None:
        """Run until `stop`, or until another run makes no sense."""
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
        """Run once; return how long to rest, None to give up."""
        try:
            await run_once()
        except NotReadyError as error:
            log.debug("%s: %s", self._name, error)
            return backoff.next_ms()
        except CustomMetadataTooLargeError as error:
            # No other copy would end differently (Kafka's RLMCopyTask ends, too).
            log.error("Copying %s ends: %s", self._name, error)  # noqa: TRY400 - it says all
            return None
        except (StorageError, InvariantError) as error:
            self._on_failure(error)
            return None
        except Exception as error:
            pause_ms = backoff.next_ms()
            log.warning("Tiering %s goes on in %d ms: %s", self._name, pause_ms, error, exc_info=error)
            return pause_ms
        backoff.reset()
        return self._tools.config().remote_log_manager_task_interval_ms


class PartitionTasks(RepeatedTask):
    """What runs for a partition in one role."""

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
        super().__init__(tools, str(partition), on_failure=on_failure)
        self.log = source
        self.is_leader = is_leader
        self.leader_epoch = leader_epoch
        # Hears of another epoch in the same role.
        self.on_epoch: Callable[[], None] = lambda: None
        self.loops: list[asyncio.Task[Any]] = []

    def start(self, start_task: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]], run_once: RunOnce) -> None:
        """Run something again and again in a task of its own."""
        self.loops.append(start_task(self.run(run_once)))

    def take_epoch(self, leader_epoch: int) -> None:
        """Go on in the same role in another epoch; others may have led in between."""
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.on_epoch()

    async def wait_ended(self) -> None:
        """Wait until no loop runs any more."""
        if self.loops:
            await asyncio.wait(self.loops)
