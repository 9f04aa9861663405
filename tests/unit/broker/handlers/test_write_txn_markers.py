"""WriteTxnMarkers over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.txn_partitions import PRODUCER_ID, end, fake_coordinator, produce, transactional_batch
from tests.support.nodes.sim_node import SimNode, row, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.WRITE_TXN_MARKERS))
@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_a_transaction(node: SimNode, version: int, commit: bool) -> None:
    node.create_topic("t", 2)
    fake_coordinator(node)
    produce(node, "t", transactional_batch(b"a", b"b"))
    assert node.fetch("t", isolation_level=1).records == b""
    codes = end(node, [("t", 0), ("t", 1), ("t", 2), ("nope", 0)], commit=commit, version=version)
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [ErrorCode.none, ErrorCode.none, unknown, unknown]
    read = node.fetch("t", isolation_level=1)
    assert (read.last_stable_offset, read.high_watermark) == (3, 3)
    aborted = [(each.producer_id, each.first_offset) for each in read.aborted_transactions or ()]
    assert aborted == ([] if commit else [(PRODUCER_ID, 0)])


def test_version_two_demands_a_higher_epoch_where_version_one_does_not(node: SimNode) -> None:
    node.create_topic("t")
    fake_coordinator(node)
    produce(node, "t", transactional_batch(b"a"))
    assert end(node, [("t", 0)], commit=True, epoch=0, version=2) == [ErrorCode.invalid_producer_epoch]
    assert end(node, [("t", 0)], commit=True, epoch=0, version=1) == [ErrorCode.none]


def test_markers_of_one_producer_share_a_row(node: SimNode) -> None:
    node.create_topic("t", 2)
    markers = [
        row(
            "WritableTxnMarker",
            producer_id=5,
            producer_epoch=1,
            transaction_result=True,
            topics=[row("WritableTxnMarkerTopic", name="t", partition_indexes=(index,))],
            coordinator_epoch=0,
            transaction_version=2,
        )
        for index in (0, 1)
    ]
    (answer,) = node.ask(ApiKey.WRITE_TXN_MARKERS, 2, markers=markers).markers
    assert answer.producer_id == 5
    assert [each.partition_index for each in answer.topics[0].partitions] == [0, 1]
    assert node.ask(ApiKey.WRITE_TXN_MARKERS, 2, markers=[]).markers == ()
