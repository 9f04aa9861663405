"""What the indexes of a segment share: entries of one size, rising, padded with zeros until the file is trimmed.

Indexes have no checksum. Size and order are all that can be checked without the batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import le, lt

from crabka.errors import CorruptDataError
from crabka.ports import Buffer


def whole_entries(data: Buffer, entry_bytes: int, where: str) -> memoryview:
    """Return the bytes of the entries without the padding. Raises CorruptDataError if an entry is cut."""
    require_whole(data, entry_bytes, where)
    used = len(bytes(data).rstrip(b"\0"))
    return memoryview(data)[: -(-used // entry_bytes) * entry_bytes]


def require_whole(data: Buffer, entry_bytes: int, where: str) -> None:
    """Raise CorruptDataError if the last entry is cut."""
    if len(data) % entry_bytes:
        raise CorruptDataError(where, f"its {len(data)} bytes are no multiple of {entry_bytes}")


def require_rising(column: Sequence[int], where: str, *, strictly: bool = True) -> None:
    """Raise CorruptDataError unless the numbers rise, or at least do not fall."""
    if not all(map(lt if strictly else le, column, islice(column, 1, None))):
        raise CorruptDataError(where, "its entries do not rise")
