"""The error of a stored batch that cannot be turned into rows."""

from __future__ import annotations

from typing import Any

from crabka.errors import CorruptDataError
from crabka.spark.decode.places import Origin


class CorruptBatch(CorruptDataError):  # noqa: N818 - it is also the entry of a report about batches left out
    """One batch whose bytes contradict their checksum or format, and where it lies.

    Travels between processes, so it can be pickled.
    """

    def __init__(self, origin: Origin, reason: str, *, base_offset: int, size_bytes: int, skippable: bool) -> None:
        where = (
            f"batch at offset {base_offset} of {origin.topic}-{origin.partition}, object {origin.object_name}, "
            f"position {origin.position}"
        )
        super().__init__(where, reason)
        self.origin = origin  # its position is that of the batch
        self.base_offset = base_offset  # as the header says: it may be what is broken
        self.size_bytes = size_bytes
        self.skippable = skippable  # False if the length is wrong: no batch after it can be found

    @property
    def topic(self) -> str:
        """The topic of the batch."""
        return self.origin.topic

    @property
    def partition(self) -> int:
        """The partition of the batch."""
        return self.origin.partition

    @property
    def object_name(self) -> str:
        """The object that holds the batch."""
        return self.origin.object_name

    @property
    def position(self) -> int:
        """Where in the object the batch begins."""
        return self.origin.position

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.origin, self.message, self.base_offset, self.size_bytes, self.skippable)


def _restore(*fields: Any) -> CorruptBatch:
    origin, reason, base_offset, size_bytes, skippable = fields
    return CorruptBatch(origin, reason, base_offset=base_offset, size_bytes=size_bytes, skippable=skippable)
