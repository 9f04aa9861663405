"""Listing the objects of a tier, for tools that compare it with its metadata or read it without.

Optional for a storage; the broker does not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable


class TierObject(NamedTuple):
    """One object. Names are as found: `layout` parses them and refuses foreign ones."""

    partition_directory: str  # empty for what lies beside the partitions
    name: str
    size_bytes: int
    modified_ms: int


@runtime_checkable
class TierListing(Protocol):
    """A storage that can list its objects."""

    def list_objects(self, prefix: str = "") -> Iterator[TierObject]:
        """Return the objects in partition directories whose names begin with `prefix`, in no particular order.

        An empty prefix gives everything, also what does not belong to any partition. What is written or removed
        meanwhile may appear or not. Raises RemoteBackendError while it is read.
        """
        ...
