"""Object stores without a network, for tests of what is built on them."""

from __future__ import annotations

from pathlib import Path

import obstore
from obstore.store import LocalStore, MemoryStore

from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.transfer import UploadLimits

SMALL_PARTS = UploadLimits(threshold_bytes=5 << 20, part_bytes=5 << 20)

# obstore starts its threads with the first call and keeps their descriptors: before any test takes stock of them.
obstore.put(MemoryStore(), "object", b"")


def memory_bucket(prefix: str = "") -> tuple[MemoryStore, Bucket]:
    """Return a store in memory and a bucket in it, for objects in one part: it would keep others' memory."""
    store = MemoryStore()
    return store, Bucket(store, location="memory", prefix=prefix)


def disk_bucket(directory: Path) -> Bucket:
    """Return a bucket on the disk that takes objects in small parts."""
    return Bucket(LocalStore(directory, automatic_cleanup=True), location="disk", limits=SMALL_PARTS)
