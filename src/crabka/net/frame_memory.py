"""The memory that requests hold before they are answered, over all connections of a node (`queued.max.request.bytes`).

Owns the sum and who has to wait. Counted are unfinished frames and large requests that have no response yet. The rules:

- A frame of more than PARK_BYTES reserves its whole length when that much of it has arrived. If there is no room its
  connection is not read until there is. It holds a chunk at most meanwhile. A frame that has its memory needs no more
  to be finished, so frames never wait for each other in a circle.
- Smaller frames and requests in flight are counted but do not wait. Small requests are served however full it is.
- While any frame waits, an unfinished frame must arrive: one that stands still, or is not complete after FRAME_S, costs
  its connection. So half-sent frames cannot keep the memory. Standing still means less than PROGRESS_BYTES in STALL_S
  less the time that the longest wait has taken, and in LEAST_STALL_S at the least. So the first to wait gets room after
  STALL_S however many half-sent frames there are, and each later one LEAST_STALL_S after it. A peer that was not read
  for want of memory has sent what the system buffers, so it needs no longer to go on.
- Above twice the limit, which only small unfinished frames of very many connections can reach, the oldest is given up
  at once.
- A smaller frame may pass a larger one that waits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from crabka.protocol.frames import PARK_BYTES, READ_BYTES, ChunkPool

DEFAULT_LIMIT_BYTES: Final = 256 * 1024 * 1024
STALL_S: Final = 5.0
LEAST_STALL_S: Final = 1.0
PROGRESS_BYTES: Final = 16 * 1024
FRAME_S: Final = 30.0
_CHECK_S: Final = 0.25
# Read at a time from a connection that holds nothing, while half of the memory is in use.
_SPARING_READ_BYTES: Final = READ_BYTES // 4


class MemoryHolder(Protocol):
    """A connection, as far as this module knows it."""

    def on_memory(self) -> None:
        """Read on: what was asked for is reserved."""
        ...

    def on_memory_lost(self, reason: str) -> None:
        """End: others need the memory."""
        ...


class FrameState(NamedTuple):
    """What the memory of a connection is for."""

    # An incomplete frame, which only the peer can end by sending the rest; else whole ones, which wait for the node.
    is_unfinished: bool
    # Not the one that the connection reported last.
    is_new: bool
    # What has arrived and is not handled.
    received_bytes: int


@dataclass(slots=True, eq=False)
class _Hold:
    """What one connection has."""

    began: float
    # When it had PROGRESS_BYTES more than before, and how many then.
    moved: float
    moved_bytes: int
    waits_since: float = 0.0
    held_bytes: int = 0  # with what is reserved
    is_unfinished: bool = True


class FrameMemory:
    """The account of one node. All methods run on its loop."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.pool = ChunkPool()
        self.used_bytes = 0
        # In the order in which their frames began.
        self._holds: dict[MemoryHolder, _Hold] = {}
        # In the order in which they began to wait.
        self._waiting: dict[MemoryHolder, int] = {}
        self._check_timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether requests that can wait should."""
        return self.used_bytes >= self.limit_bytes

    @property
    def waiting_count(self) -> int:
        """Connections that are not read for want of memory."""
        return len(self._waiting)

    # --- frames

    def hold(self, holder: MemoryHolder, held_bytes: int, wanted_bytes: int, state: FrameState) -> bool:
        """Count what a connection holds and reserve what its frame needs in all; return False if it has to wait.

        `on_memory` follows then, unless `release` comes first.
        """
        now = asyncio.get_running_loop().time()
        hold = self._holds.get(holder)
        if hold is None or state.is_new:
            hold = self._begin(holder, hold, now, state.received_bytes)
        elif state.received_bytes - hold.moved_bytes >= PROGRESS_BYTES:
            hold.moved, hold.moved_bytes = now, state.received_bytes
        hold.is_unfinished = state.is_unfinished
        needed_bytes = max(held_bytes, min(wanted_bytes, self.limit_bytes))
        must_wait = needed_bytes > PARK_BYTES and held_bytes < needed_bytes and not self._has_room(hold, needed_bytes)
        if must_wait:
            if holder not in self._waiting:
                hold.waits_since = now
            self._waiting[holder] = needed_bytes
            self._watch()
            needed_bytes = held_bytes
        else:
            self._waiting.pop(holder, None)
        is_less = needed_bytes < hold.held_bytes
        self._count(hold, needed_bytes)
        if self.used_bytes > self.limit_bytes:
            self._give_up_oldest()
        elif is_less:
            self._admit_waiting()
        return not must_wait

    def release(self, holder: MemoryHolder) -> None:
        """Count a connection no longer that holds nothing."""
        self._waiting.pop(holder, None)
        hold = self._holds.pop(holder, None)
        if hold is not None:
            self._count(hold, 0)
            self._admit_waiting()

    # --- requests in flight

    def add_in_flight(self, count: int) -> None:
        """Count a request that has no response yet."""
        self.used_bytes += count
        self._set_read_size()

    def remove_in_flight(self, count: int) -> None:
        """Count it no longer."""
        self.used_bytes -= count
        self._set_read_size()
        self._admit_waiting()

    # --- internals

    def _begin(self, holder: MemoryHolder, earlier: _Hold | None, now: float, received_bytes: int) -> _Hold:
        """Put the frame of a connection at the end of the order; it takes over what an earlier one had."""
        hold = _Hold(now, now, received_bytes)
        if earlier is not None:
            del self._holds[holder]
            hold.held_bytes = earlier.held_bytes
        self._holds[holder] = hold
        return hold

    def _count(self, hold: _Hold, held_bytes: int) -> None:
        self.used_bytes += held_bytes - hold.held_bytes
        hold.held_bytes = held_bytes
        self._set_read_size()

    def _set_read_size(self) -> None:
        is_sparing = self.used_bytes > self.limit_bytes // 2
        self.pool.read_bytes = _SPARING_READ_BYTES if is_sparing else READ_BYTES

    def _has_room(self, hold: _Hold, wanted_bytes: int) -> bool:
        # What is reserved stays so, though others may have exceeded the limit meanwhile.
        extra_bytes = wanted_bytes - hold.held_bytes
        return extra_bytes <= 0 or self.used_bytes + extra_bytes <= self.limit_bytes

    def _admit_waiting(self) -> None:
        if not self._waiting or self.is_full:
            return
        for holder, wanted_bytes in tuple(self._waiting.items()):
            hold = self._holds[holder]
            if self._has_room(hold, wanted_bytes):
                del self._waiting[holder]
                # Time in line is not time in which the peer could have sent.
                hold.began = hold.moved = asyncio.get_running_loop().time()
                self._count(hold, wanted_bytes)
                holder.on_memory()

    def _give_up_oldest(self) -> None:
        self._watch()
        while self.used_bytes > 2 * self.limit_bytes:
            oldest = next((holder for holder, hold in self._holds.items() if hold.is_unfinished), None)
            if oldest is None:
                return
            self._give_up(oldest, "is the oldest of too many unfinished ones")

    def _watch(self) -> None:
        if self._check_timer is None:
            self._check_timer = asyncio.get_running_loop().call_later(_CHECK_S, self._check)

    def _check(self) -> None:
        """Give up frames that do not arrive, as long as others need their memory."""
        self._check_timer = None
        now = asyncio.get_running_loop().time()
        for holder, hold in tuple(self._holds.items()):
            if not self._is_short():
                return
            if holder in self._waiting or not hold.is_unfinished:
                continue
            patience_s = self._patience_s(now)
            if now - hold.moved >= patience_s:
                self._give_up(holder, f"did not go on for {patience_s:.1f} s")
            elif now - hold.began >= FRAME_S:
                self._give_up(holder, f"is not complete after {FRAME_S:g} s")
        if self._is_short():
            self._watch()

    def _patience_s(self, now: float) -> float:
        """Return how long a frame may stand still."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return STALL_S
        return max(STALL_S - (now - self._holds[longest].waits_since), LEAST_STALL_S)

    def _is_short(self) -> bool:
        return bool(self._waiting) or self.used_bytes > self.limit_bytes

    def _give_up(self, holder: MemoryHolder, reason: str) -> None:
        holder.on_memory_lost(reason)
        self.release(holder)
