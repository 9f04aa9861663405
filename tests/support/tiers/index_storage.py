"""A remote storage of one segment with its indexes."""

from __future__ import annotations

from crabka.formats.file_names import REMOTE_INDEX_CACHE
from crabka.formats.offset_index import OffsetIndex
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.remote_samples import sample_segment
from tests.support.storage.small import append, make_batch
from tests.support.tiers.aborted import Transactions
from tests.support.tiers.remote_reading import TierWorld

SEGMENT = sample_segment(1, (100, 199), size_bytes=5000)


PATH = f"/d1/{REMOTE_INDEX_CACHE}"


def offsets() -> OffsetIndex:
    index = OffsetIndex(100)
    index.append(120, 1000)
    index.append(150, 3000)
    return index


class IndexStorage(InmemoryRemoteStorage):
    """Has indexes and nothing else, and counts the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.content = {IndexType.OFFSET: offsets().encode()}
        self.asked: list[IndexType] = []

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        self.asked.append(index_type)
        return self.content[index_type] if index_type in self.content else super().fetch_index(metadata, index_type)


def aborting(world: TierWorld) -> list[RemoteLogSegmentMetadata]:
    """Fill three segments with transactions, two of which abort in the second one."""
    txn = Transactions(world)
    txn.write(7, 2)
    txn.write(8)
    txn.roll()
    txn.write(7)
    txn.abort(7)
    append(world.log, make_batch(2))
    txn.abort(8)
    txn.roll()
    append(world.log, make_batch(1))
    txn.roll()
    append(world.log, make_batch(1))
    return world.tier()
