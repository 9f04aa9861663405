"""The port of the transaction coordinator to the partitions of a transaction: end-of-transaction markers.

Implementations know the leaders of the partitions; the coordinator does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.ids import TopicPartition


class TxnMarker(NamedTuple):
    """The end of one producer's transaction in some partitions."""

    producer_id: int
    producer_epoch: int
    # The leader epoch of the coordinator's partition: a marker of an older coordinator is refused.
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    # From version 2 on the marker's epoch is above that of the data that it ends (KIP-890).
    transaction_version: int


class MarkerWriter(Protocol):
    """Writes markers, on this node or on others."""

    async def write(self, markers: Sequence[TxnMarker]) -> list[dict[TopicPartition, ErrorCode]]:
        """Write markers and return for each the outcome in all of its partitions."""
        ...
