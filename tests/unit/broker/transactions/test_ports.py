"""The port of markers."""

from __future__ import annotations

import asyncio

from crabka.broker.transactions.ports import NoMarkerWriter, TxnMarker
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode


def test_without_a_writer_markers_are_to_be_sent_again() -> None:
    place = TopicPartition("t", 0)
    marker = TxnMarker(1, 2, 3, True, (place,), transaction_version=2)
    assert asyncio.run(NoMarkerWriter().write([marker])) == [{place: ErrorCode.not_leader_or_follower}]
