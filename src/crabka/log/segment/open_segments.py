"""Active segments that hold a descriptor, and which of them give it up when there are too many.

A log without writes needs no open file: its active segment opens it again when it must (`Segment.handle`). So a
node has far more partitions than descriptors.

Only what is durable gives up its descriptor. The kernel reports a failed write-back to descriptors that were open when
it happened; one that is opened later gets the report at most once, and none if the inode left the memory meanwhile. A
file that was closed with unsynced bytes could therefore be "synced" later by a descriptor that does not know of them.
So unsynced bytes keep their descriptor until an fsync of that very descriptor has succeeded (`DescriptorKeeper`).

Nothing is noted on the way of an append: whether a segment was used shows in its size, and reads set a flag. A segment
that was not used since the last scan goes first (second chance, as in the clock algorithm).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from crabka.vfs.syncing import sync_each

if TYPE_CHECKING:
    from crabka.log.segment.segment import Segment
    from crabka.ports import File

DEFAULT_CAPACITY: Final = 100_000
# How many segments are looked at for each that is opened above the capacity.
LOOKS_PER_OPENING: Final = 8
# Above the capacity by this share the loop itself waits for syncs, so that the process never runs out: one request may
# write to more logs than that. It waits for so many at once, which takes hardly longer than for one.
CEILING_SHARE: Final = 4
SYNCS_AT_CEILING: Final = 64


class OpenSegments:
    """The open active segments of a node, the one that was looked at longest ago first."""

    def __init__(
        self,
        capacity: int = DEFAULT_CAPACITY,
        sync_files: Callable[[Sequence[File]], list[OSError | None]] = sync_each,
    ) -> None:
        """At most about `capacity` segments hold a descriptor; unsynced ones may exceed it by a quarter.

        `sync_files` makes files durable, and returns when all are.
        """
        self.capacity = capacity
        self._sync_files = sync_files
        # Segment -> its size when it was last looked at.
        self._ring: OrderedDict[Segment, int] = OrderedDict()
        self._owner = threading.get_ident()
        # How many files were opened so far.
        self.opened_count = 0
        # Called on the loop when segments must be synced before they can give up their descriptors.
        self.on_crowded: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def is_crowded(self) -> bool:
        """Whether no other segment should open its file before one gives up its own."""
        return len(self._ring) >= self.capacity

    @property
    def ceiling(self) -> int:
        """How many descriptors are held at most."""
        return self.capacity + max(self.capacity // CEILING_SHARE, 1)

    def belong_to_this_thread(self) -> None:
        """Let the thread that calls be the one that takes descriptors away: that of the loop."""
        self._owner = threading.get_ident()

    def add(self, segment: Segment) -> None:
        """Note that a segment has opened its file. In any thread."""
        self._ring[segment] = segment.size
        self.opened_count += 1

    def discard(self, segment: Segment) -> None:
        """Note that a segment has closed its file. In any thread."""
        self._ring.pop(segment, None)

    def make_room(self) -> None:
        """Take descriptors from segments that are idle and durable, for one that is about to open its file.

        Requests syncs if these are not enough. Does nothing in other threads than the loop's: an append could be under
        way there.
        """
        if not self.is_crowded or threading.get_ident() != self._owner:
            return
        self.take_idle(0, looks=LOOKS_PER_OPENING)
        if not self.is_crowded:
            return
        self.on_crowded()
        if len(self._ring) >= self.ceiling:
            self._sync_now(self.take_idle(SYNCS_AT_CEILING))

    def _sync_now(self, chosen: Sequence[Segment]) -> None:
        """Make segments durable and let them give up their files. Waits for the disk. Raises OSError."""
        open_ones = [(segment, handle, segment.size) for segment in chosen if (handle := segment.open_handle)]
        errors = self._sync_files([handle.file for _, handle, _ in open_ones])
        for (segment, handle, size), error in zip(open_ones, errors, strict=True):
            if error is None:
                segment.note_synced(handle, size)
        for error in errors:
            if error is not None:
                raise error

    def take_idle(self, count: int, *, looks: int | None = None) -> list[Segment]:
        """Return up to `count` segments that are idle and not durable; those that are durable give up their files.

        Stops when the number is well below the capacity, and at the latest after two rounds.
        """
        found: dict[Segment, None] = {}
        enough = self.capacity - max(self.capacity // 8, 1)
        for _ in range(2 * len(self._ring) if looks is None else looks):
            if not self._ring or len(self._ring) - len(found) <= enough or (count and len(found) >= count):
                break
            segment, seen_size = self._ring.popitem(last=False)
            if not segment.has_descriptor:
                continue
            if segment.was_used(seen_size):
                self._ring[segment] = segment.size
            elif segment.is_durable:
                segment.rest()
            else:
                self._ring[segment] = segment.size
                if count:
                    found[segment] = None
        return list(found)
