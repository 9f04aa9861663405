"""Syncs segments that are idle, in threads, so that they can give up their descriptors.

Begins when more segments hold one than should (`OpenSegments`) and repeats until that is over. Nothing is acknowledged
by it and no recovery point moves: the bytes are durable a little earlier than a flush of the log would make them.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.vfs.syncing import sync_each

if TYPE_CHECKING:
    from crabka.log.segment.caches import Handle
    from crabka.log.segment.open_segments import OpenSegments
    from crabka.log.segment.segment import Segment
    from crabka.ports import Threads

# Segments of one job, and of one round.
SEGMENTS_PER_JOB: Final = 16
SEGMENTS_PER_ROUND: Final = 64


class _Sync(NamedTuple):
    segment: Segment
    handle: Handle
    size: int


class DescriptorKeeper:
    """Makes room among the open segments of a node. Only for the loop."""

    def __init__(self, threads: Threads, segments: OpenSegments, on_failure: Callable[[str, Exception], None]) -> None:
        """`on_failure` is called with the log dir of a segment that could not be synced."""
        self._threads = threads
        self._segments = segments
        self._on_failure = on_failure
        self._running: asyncio.Future[list[list[OSError | None] | BaseException]] | None = None
        segments.on_crowded = self.wake

    def wake(self) -> None:
        """Begin, unless a round is under way."""
        if self._running is None:
            self._start()

    async def drain(self) -> None:
        """Wait until no round is under way."""
        while self._running is not None:
            await asyncio.wait([self._running])

    def _start(self) -> None:
        chosen = self._segments.take_idle(SEGMENTS_PER_ROUND)
        syncs = [
            _Sync(segment, handle, segment.size) for segment in chosen if (handle := segment.open_handle) is not None
        ]
        if not syncs:
            return
        parts = [syncs[start : start + SEGMENTS_PER_JOB] for start in range(0, len(syncs), SEGMENTS_PER_JOB)]
        jobs = [self._threads.submit(sync_each, [sync.handle.file for sync in part]) for part in parts]
        self._running = asyncio.gather(*jobs, return_exceptions=True)
        self._running.add_done_callback(lambda done: self._on_done(parts, done))

    def _on_done(
        self, parts: list[list[_Sync]], done: asyncio.Future[list[list[OSError | None] | BaseException]]
    ) -> None:
        self._running = None
        if done.cancelled():
            return
        for part, outcome in zip(parts, done.result(), strict=True):
            if isinstance(outcome, BaseException):
                return  # the pool is closed
            for sync, error in zip(part, outcome, strict=True):
                if error is None:
                    sync.segment.note_synced(sync.handle, sync.size)
                else:
                    self._on_failure(posixpath.dirname(posixpath.dirname(sync.segment.log_path)), error)
        if self._segments.is_crowded:
            self._start()
