"""The port of markers."""

from __future__ import annotations

from crabka.broker.transactions.ports import TxnMarker
from crabka.ids import TopicPartition


def test_a_marker_names_its_partitions() -> None:
    marker = TxnMarker(1, 2, 3, True, (TopicPartition("t", 0),), transaction_version=2)
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1, 2, 3)
    assert marker.commit
    assert marker.partitions == (TopicPartition("t", 0),)
    assert marker.transaction_version == 2
