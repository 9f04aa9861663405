from __future__ import annotations

from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.backends.s3 import s3_storage
from crabka.remote.listing import TierListing
from crabka.testing import MemoryFileSystem


def test_storages_that_can_list_are_recognized() -> None:
    buckets = s3_storage(MemoryFileSystem())
    assert isinstance(buckets, TierListing)
    assert isinstance(LocalTieredStorage(MemoryFileSystem()), TierListing)
    assert not isinstance(MemoryFileSystem(), TierListing)
    buckets.close()
