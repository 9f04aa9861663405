"""Checks the files of the metadata log in the background, and heals them from the node's memory.

The node has the committed image, the last batches, the leader epochs and the durable end. So damage is healed without
another node: the last batches are restored, and older ones are replaced by a new snapshot of the image. Side files are
rewritten. Damage after the image to a batch that is no longer in memory is healed once the image has passed it; a
leader resigns meanwhile, because it cannot send those records to followers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CrabkaError, InvariantError
from crabka.log.healing.paced_steps import PacedSteps
from crabka.log.healing.scrub_settings import FIRST_PASS_MS, ScrubSettings
from crabka.quorum.healing.check import DamagedSegment, MetadataCheck

if TYPE_CHECKING:
    from crabka.ports import Runtime
    from crabka.quorum.snapshots.keeper import SnapshotKeeper
    from crabka.quorum.storage import MetadataStorage

logger = logging.getLogger(__name__)
# Between two attempts to heal the same damage; doubled up to the largest.
RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 60_000
# Between two checks that readers request.
SUSPECT_MS: Final = 1_000


class LogAccess(NamedTuple):
    """Access to the log for the check, shared with its driver."""

    # Held while the files of the log are changed.
    in_use: asyncio.Lock
    # Waits for a sync under way; called with the lock held, so that none begins.
    wait_flushed: Callable[[], Awaitable[None]]
    # Called while there is damage after the committed end.
    on_uncommitted: Callable[[], None]


@dataclass(slots=True)
class MetadataScrubStats:
    """Results of the checks since the node started."""

    bytes_checked: int = 0
    passes: int = 0
    found: int = 0
    repaired: int = 0


class MetadataScrubber:
    """The checks of one replica's metadata files. All methods run on the loop."""

    def __init__(
        self,
        runtime: Runtime,
        storage: MetadataStorage,
        snapshots: SnapshotKeeper,
        access: LogAccess,
        settings: Callable[[], ScrubSettings],
    ) -> None:
        self._runtime = runtime
        self._storage = storage
        self._snapshots = snapshots
        self._access = access
        # Replaced by the node once it has dynamic settings.
        self.settings = settings
        self._wake = asyncio.Event()
        self._suspected_ms = -SUSPECT_MS
        self._is_suspected = False
        # Damage that was already logged.
        self._logged: set[str] = set()
        self.stats = MetadataScrubStats()
        # The metadata log is small, and the node waits for what is urgent.
        current = lambda: self.settings()  # noqa: E731, PLW0108 - the node replaces the function
        self._steps = PacedSteps(runtime, current, self.stats, urgent_cpu_percent=100)

    def suspect(self, reason: str) -> None:
        """Check everything as soon as possible, because a reader found damage."""
        now_ms = self._runtime.clock.monotonic_ms()
        if now_ms - self._suspected_ms >= SUSPECT_MS:
            self._suspected_ms = now_ms
            logger.debug("The metadata files are checked: %s", reason)
            self._is_suspected = True
            self._wake.set()

    async def run(self) -> None:
        """Check and heal until cancelled."""
        clock, settings = self._runtime.clock, self.settings()
        trigger, retries = settings.trigger, 0
        due_ms = clock.monotonic_ms() + min(FIRST_PASS_MS, settings.interval_ms)
        while True:
            await self._wait_until(due_ms)
            settings, now_ms = self.settings(), clock.monotonic_ms()
            is_urgent = self._is_suspected or settings.trigger != trigger or retries > 0
            if not is_urgent and (now_ms < due_ms or not settings.is_enabled):
                due_ms = max(due_ms, now_ms) if settings.is_enabled else now_ms + settings.interval_ms
                continue
            self._is_suspected, trigger = False, settings.trigger
            if await self._try_pass(is_urgent=is_urgent):
                retries, due_ms = 0, now_ms + settings.interval_ms
            else:
                due_ms = clock.monotonic_ms() + min(RETRY_MS << retries, MAX_RETRY_MS)
                retries = min(retries + 1, 10)

    async def _wait_until(self, due_ms: int) -> None:
        wait_ms = min(due_ms - self._runtime.clock.monotonic_ms(), MAX_RETRY_MS)
        if wait_ms > 0:
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()

    async def _try_pass(self, *, is_urgent: bool) -> bool:
        try:
            return await self.check_now(is_urgent=is_urgent)
        except InvariantError:
            raise
        except (OSError, CrabkaError) as error:
            # A full disk, for example. The log still has all of its data.
            logger.warning("The check of the metadata files in %s failed: %s", self._storage.directory, error)
            return False

    async def check_now(self, *, is_urgent: bool = True) -> bool:
        """Check everything and heal damage; return False if damage is left for later. Raises OSError."""
        log = self._storage.log
        async with self._access.in_use:
            check = MetadataCheck(log.begin_check(), self._storage.directory)
        await self._steps.run(check.steps(), is_urgent=is_urgent)
        await self._mend_files(check)
        self.stats.passes += 1
        if not check.segments and not check.snapshots:
            self._logged.clear()
            return True
        return await self._heal(check)

    async def _mend_files(self, check: MetadataCheck) -> None:
        """Rewrite files that follow from the batches or are known in memory."""
        log = self._storage.log
        async with self._access.in_use:
            await self._access.wait_flushed()
            wrong = [*await self._runtime.threads.submit(lambda: list(log.mend_side_files()))]
            if check.indexes and log.changes == check.changes:
                wrong += await self._runtime.threads.submit(log.replace_indexes, check.indexes)
        self.stats.found += len(wrong)
        self.stats.repaired += len(wrong)
        for reason in wrong:
            logger.warning("Rewrote a side file of the metadata log: %s", reason)

    async def _heal(self, check: MetadataCheck) -> bool:
        """Cover damaged segments and snapshots with a new snapshot, as far as the image reaches."""
        self._log_damage([*check.segments, *check.snapshots])
        async with self._access.in_use:
            log = self._storage.log
            if log.changes != check.changes:
                return False
            restored = await self._runtime.threads.submit(log.restore, [each.segment for each in check.segments])
            cover = None if restored else await self._cover(check.segments)
        if restored:
            # The remaining damage needs a snapshot.
            self.stats.repaired += len(restored)
            return await self.check_now()
        damaged = {each.snapshot_id for each in check.snapshots}
        covering = await self._snapshots.heal(cover, damaged)
        if covering is None:
            if any(each.offset > self._snapshots.image_offset for each in check.segments):
                self._access.on_uncommitted()
            return False
        for each in (*check.segments, *check.snapshots):
            self.stats.repaired += 1
            logger.warning("Damaged metadata is replaced by snapshot %s: %s", covering.file_name, each)
        self._logged.clear()
        return True

    async def _cover(self, damaged: list[DamagedSegment]) -> int | None:
        """Return the end of the damaged segments; a damaged active one is rolled, so that it can be removed."""
        log = self._storage.log
        if any(each.segment.is_active for each in damaged):
            await self._access.wait_flushed()
            await self._runtime.threads.submit(log.roll, self._runtime.clock.now_ms())
        return max((log.end_of(each.segment) for each in damaged), default=None)

    def _log_damage(self, damaged: list[object]) -> None:
        for text in map(str, damaged):
            if text not in self._logged:
                self._logged.add(text)
                self.stats.found += 1
                logger.warning("Metadata is damaged: %s", text)
