"""Where bytes come from and which of their offsets count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowRange:
    """The offsets that count; batches may reach over both ends."""

    start_offset: int
    end_offset: int  # exclusive


@dataclass(frozen=True, slots=True)
class Origin:
    """The partition of some bytes, and where they lie: for the columns of every row and for messages."""

    topic: str
    partition: int
    object_name: str
    position: int  # of the first byte, inside the object
