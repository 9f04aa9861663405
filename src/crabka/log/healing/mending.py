"""Which batches from elsewhere may be put in the place of damaged ones. PURE.

A batch from another replica or from the tier takes the place of damaged bytes only if it is the one that was written
there. A leader writes one batch at an offset in its epoch, so equal offsets in equal epochs are equal batches. That
does not hold where compaction has rewritten batches, on each replica by itself. So a batch counts

- if it fits without a gap: the batches have sound checksums and the epochs that this log knows for their offsets,
  follow one another from the first damaged offset to the last, and have together as many bytes as the damaged range; or
- if what is left of the damaged batch shows that it is the same one: the same length and checksum, or the same content
  under a damaged header.

A compacted log needs the second for every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from crabka.errors import CrabkaError
from crabka.log.healing.damage import DamagedRange
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    MAGIC_V2,
    BatchHeader,
    crc_valid,
    iter_headers,
)

_LENGTH: Final = slice(8, 12)
_CRC: Final = slice(CRC_POSITION, ATTRIBUTES_POSITION)


class MendError(CrabkaError):
    """What came from elsewhere cannot take the place of the damaged batches."""

    def __init__(self, message: str, *, is_misfit: bool = False) -> None:
        """`is_misfit` of batches that are sound, but may not be those that were written here."""
        super().__init__(message)
        self.is_misfit = is_misfit


class MendRules(NamedTuple):
    """What is known of the log besides the damaged range."""

    # The leader epoch of an offset, None if it is not known.
    epoch_of: Callable[[int], int | None]
    is_compacted: bool


def whole_batches(damaged: DamagedRange, fetched: bytes) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches that begin in the damaged range, of what was fetched from its first offset on.

    Raises MendError if one is damaged as well.
    """
    view = memoryview(fetched)
    found = []
    for position, header in iter_headers(view):
        if header.base_offset >= damaged.end_offset:
            break
        if header.magic != MAGIC_V2 or not crc_valid(view, position, header):
            raise MendError(f"the batch at offset {header.base_offset} has a wrong checksum there as well")
        if header.last_offset >= damaged.offset:
            found.append((header, view[position : position + header.size_in_bytes]))
    return found


def fit(damaged: DamagedRange, old: bytes, batches: list[tuple[BatchHeader, memoryview]], rules: MendRules) -> bytes:
    """Return what is to be written over the bytes `old` of the damaged range. Raises MendError if it does not fit."""
    data = b"".join(batch for _, batch in batches)
    if len(data) != len(old) or not batches:
        raise MendError(f"what is there does not fit: {len(data)} bytes for {len(old)} damaged ones", is_misfit=True)
    expected, position, is_contiguous, are_same = damaged.offset, 0, True, True
    for header, batch in batches:
        if header.base_offset < expected or header.last_offset >= damaged.end_offset:
            reason = f"what is there does not fit: offset {header.base_offset} where {expected} is expected"
            raise MendError(reason, is_misfit=True)
        epoch = rules.epoch_of(header.base_offset)
        is_contiguous = is_contiguous and header.base_offset == expected and epoch is not None
        if epoch is not None and header.partition_leader_epoch not in (epoch, -1):
            raise MendError(
                f"leader epoch {header.partition_leader_epoch} at offset {header.base_offset}, and {epoch} here"
            )
        are_same = are_same and _is_same(old[position : position + len(batch)], batch)
        position += len(batch)
        expected = header.next_offset
    is_contiguous = is_contiguous and expected == damaged.end_offset
    if not are_same and (rules.is_compacted or not is_contiguous):
        reason = "what is there does not fit: the batches are not certainly those that were written here"
        raise MendError(reason, is_misfit=True)
    return data


def _is_same(old: bytes, new: memoryview) -> bool:
    """Return whether what is left of a batch shows that it was this one."""
    if old[_LENGTH] == new[_LENGTH] and old[_CRC] == new[_CRC]:
        return True
    return old[ATTRIBUTES_POSITION:] == new[ATTRIBUTES_POSITION:]
