"""InitProducerId over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NodeProducer
from tests.support.nodes.sim_node import SimNode, versions_of


def init(
    node: SimNode, *, transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1, version: int = 5
) -> tuple[ErrorCode, int, int]:
    answer = node.ask(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", versions_of(ApiKey.INIT_PRODUCER_ID))
def test_every_version_gives_a_fresh_id(node: SimNode, version: int) -> None:
    assert init(node, version=version) == (ErrorCode.none, 0, 0)
    assert init(node, version=version) == (ErrorCode.none, 1, 0)


def test_no_id_is_given_twice_over_restart_and_crash(node: SimNode) -> None:
    given = [init(node)[1]]
    node.restart()
    given.append(init(node)[1])
    node.crash()
    node.start()
    given.append(init(node)[1])
    assert given == [0, 1000, 2000]


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        ("", -1, -1, ErrorCode.invalid_request),
        (None, 5, -1, ErrorCode.invalid_request),
        (None, -1, 5, ErrorCode.invalid_request),
        ("tx", -1, -1, ErrorCode.not_coordinator),
        ("tx", 5, -1, ErrorCode.invalid_request),
    ],
)
def test_what_is_refused(
    node: SimNode, transactional_id: str | None, producer_id: int, epoch: int, code: ErrorCode
) -> None:
    refused = init(node, transactional_id=transactional_id, producer_id=producer_id, epoch=epoch)
    assert refused == (code, -1, -1)


@pytest.mark.parametrize("version", versions_of(ApiKey.INIT_PRODUCER_ID))
def test_a_transactional_id_keeps_its_producer_id_with_the_next_epoch(node: SimNode, version: int) -> None:
    producer = NodeProducer(node)
    assert producer.init(version) is ErrorCode.none
    first = producer.producer_id
    assert producer.epoch == 0
    assert producer.init(version) is ErrorCode.none
    assert (producer.producer_id, producer.epoch) == (first, 1)


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.invalid_producer_epoch), (4, ErrorCode.producer_fenced)])
def test_a_fenced_producer_receives_an_error_that_it_knows(node: SimNode, version: int, code: ErrorCode) -> None:
    producer = NodeProducer(node)
    producer.init()
    fenced = init(node, transactional_id="id", producer_id=producer.producer_id, epoch=7, version=version)
    assert fenced == (code, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_limits(node: SimNode, timeout_ms: int) -> None:
    producer = NodeProducer(node)
    assert producer.init(timeout_ms=timeout_ms) is ErrorCode.invalid_transaction_timeout
    assert producer.init(timeout_ms=900_000) is ErrorCode.none
