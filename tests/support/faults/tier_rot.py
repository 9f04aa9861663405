"""Damage in the objects of a tier, in memory or in a directory."""

from __future__ import annotations

from crabka.ports import FileSystem
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.faults.rotting import flip

TIER_ROOT = "/tier"


def flip_object(
    tier: tuple[RemoteStorageManager, FileSystem],
    segment: RemoteLogSegmentMetadata,
    position: int,
    mask: int = 1,
    *,
    kind: IndexType | None = None,
) -> None:
    """Change one byte of an object: an index, or without a kind the batches. Done twice it is undone."""
    storage, fs = tier
    if not isinstance(storage, InmemoryRemoteStorage):
        flip(fs, f"{TIER_ROOT}/{object_path(segment, kind)}", position, mask)
        return
    content, indexes = storage._segments[segment.segment_id]
    changed = bytearray(content if kind is None else indexes[kind])
    changed[position] ^= mask
    if kind is None:
        content = bytes(changed)
    else:
        indexes = {**indexes, kind: bytes(changed)}
    storage._segments[segment.segment_id] = (content, indexes)
