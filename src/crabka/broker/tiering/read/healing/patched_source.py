"""A segment with corrected batches in the place of damaged ones: same size, same positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.healing.segment_walk import DamagedStretch
    from crabka.broker.tiering.read.segment_source import SegmentSource
    from crabka.ports import Buffer, Payload


class PatchedSource:
    """Bytes of a source with others laid over them."""

    __slots__ = ("_patches", "_source", "size")

    def __init__(self, source: SegmentSource, patches: Sequence[DamagedStretch]) -> None:
        """`patches` have data, are in order and do not overlap."""
        self._source = source
        self._patches = patches
        self.size = source.size

    def peek(self, length: int, position: int) -> Buffer | None:
        """Return bytes if they are here."""
        found = self._source.peek(length, position)
        return None if found is None else self._patched(found, position)

    async def load(self, length: int, position: int, deadline: Deadline) -> int:
        """Get bytes here; return how many came in time."""
        return await self._source.load(length, position, deadline)

    def payloads(self, length: int, position: int) -> list[Payload]:
        """Return what lies between patches as the source has it, and the patches."""
        found: list[Payload] = []
        end = position + length
        for patch in self._patches:
            if patch.end <= position or patch.position >= end:
                continue
            if position < patch.position:
                found += self._source.payloads(patch.position - position, position)
            start, stop = max(position, patch.position), min(end, patch.end)
            found.append(memoryview(patch.data)[start - patch.position : stop - patch.position])
            position = stop
        return found + (self._source.payloads(end - position, position) if position < end else [])

    def read(self, length: int, position: int) -> Buffer:
        """Return bytes, in a thread."""
        return self._patched(self._source.read(length, position), position)

    def _patched(self, data: Buffer, position: int) -> Buffer:
        end = position + len(data)
        over = [each for each in self._patches if each.position < end and position < each.end]
        if not over:
            return data
        patched = bytearray(data)
        for patch in over:
            start, stop = max(position, patch.position), min(end, patch.end)
            patched[start - position : stop - position] = patch.data[start - patch.position : stop - patch.position]
        return patched
