"""Where bytes come from and which of their offsets count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NO_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RowRange:
    """The offsets that count; batches may reach over both ends."""

    start_offset: int
    end_offset: int  # exclusive


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The offsets that batches can have at all: no checksum covers a base offset, so that only these show a wrong one.

    They begin after what was read before of the same log, and end with the segment or the log.
    """

    start_offset: int = 0
    end_offset: int = _NO_END  # exclusive


ANYWHERE: Final = BatchBounds()


@dataclass(frozen=True, slots=True)
class Origin:
    """The partition of some bytes, and where they lie: for the columns of every row and for messages."""

    topic: str
    partition: int
    object_name: str
    position: int  # of the first byte, inside the object
