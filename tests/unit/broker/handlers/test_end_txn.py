"""EndTxn over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NodeProducer, control_markers
from tests.support.nodes.sim_node import SimNode, versions_of


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", versions_of(ApiKey.END_TXN))
def test_every_version_ends_a_transaction(node: SimNode, version: int, commit: bool) -> None:
    node.create_topic("t")
    markers = control_markers(node)
    producer = NodeProducer(node)
    producer.init()
    producer.add()
    assert producer.end(version, commit=commit) is ErrorCode.none
    assert producer.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert producer.epoch == (1 if version >= 5 else 0)
    assert [(marker.commit, marker.producer_epoch) for marker in markers.written] == [(commit, producer.epoch)]


@pytest.mark.parametrize("version", versions_of(ApiKey.END_TXN))
def test_a_fenced_producer_receives_an_error_that_it_knows(node: SimNode, version: int) -> None:
    producer = NodeProducer(node)
    producer.init()
    NodeProducer(node).init()
    expected = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    assert producer.end(version, commit=False) is expected


def test_an_id_is_needed(node: SimNode) -> None:
    assert NodeProducer(node, "").end() is ErrorCode.invalid_request
