"""Calls about transactions, against brokers that answer as a test says."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.transactions import TransactionDescription, TransactionListing
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

T0 = TopicPartition("t", 0)


def listed(request: ReceivedRequest) -> Any:
    assert (tuple(request.body.state_filters), tuple(request.body.producer_id_filters)) == (("Ongoing",), (7,))
    states = [
        request.types.new("TransactionState", transactional_id=name, producer_id=7, transaction_state="Ongoing")
        for name in ("b", "a")
    ]
    return request.types.message(
        throttle_time=0, error_code=ErrorCode.none, unknown_state_filters=[], transaction_states=states
    )


def coordinator(request: ReceivedRequest) -> Any:
    assert request.body.key_type == 1
    found = request.types.new(
        "Coordinator", key="a", node_id=1, host="", port=0, error_code=ErrorCode.none, error_message=None
    )
    return request.types.message(throttle_time=0, coordinators=[found])


def described(request: ReceivedRequest) -> Any:
    (name,) = request.body.transactional_ids
    known = name == "a"
    topic = request.types.new("TopicData", topic="t", partitions=[0])
    state = request.types.new(
        "TransactionState",
        error_code=ErrorCode.none if known else ErrorCode.transactional_id_not_found,
        transactional_id=name,
        transaction_state="Ongoing",
        transaction_timeout=60_000,
        transaction_start_time=1_234,
        producer_id=7,
        producer_epoch=2,
        topics=[topic],
    )
    return request.types.message(throttle_time=0, transaction_states=[state])


@run_with(with_admin, LIST_TRANSACTIONS=listed)
async def test_ids_of_all_coordinators_are_listed_by_name(admin: Admin, /) -> None:
    assert await admin.transactions.list(states=["Ongoing"], producer_ids=[7]) == [
        TransactionListing("a", 7, "Ongoing", 1),
        TransactionListing("b", 7, "Ongoing", 1),
    ]


@run_with(with_admin, FIND_COORDINATOR=coordinator, DESCRIBE_TRANSACTIONS=described)
async def test_ids_that_are_gone_are_left_out(admin: Admin, /) -> None:
    assert await admin.transactions.describe(["a", "gone"]) == {
        "a": TransactionDescription("a", 1, "Ongoing", 7, 2, 60_000, 1_234, (T0,))
    }


def test_a_termination_waits_until_the_old_transaction_is_aborted() -> None:
    answers = [ErrorCode.concurrent_transactions, ErrorCode.none]

    def init(request: ReceivedRequest) -> Any:
        assert request.body.transactional_id == "a"
        return request.types.message(throttle_time=0, error_code=answers.pop(0), producer_id=7, producer_epoch=3)

    async def test(admin: Admin, _: ClientSimulation) -> None:
        await admin.transactions.terminate("a")
        assert not answers

    with_admin(test, FIND_COORDINATOR=coordinator, INIT_PRODUCER_ID=init)


def test_a_refused_termination_is_raised() -> None:
    def init(request: ReceivedRequest) -> Any:
        code = ErrorCode.transactional_id_authorization_failed
        return request.types.message(throttle_time=0, error_code=code, producer_id=-1, producer_epoch=-1)

    async def test(admin: Admin, _: ClientSimulation) -> None:
        with pytest.raises(OperationError, match="transactional id a"):
            await admin.transactions.terminate("a")

    with_admin(test, FIND_COORDINATOR=coordinator, INIT_PRODUCER_ID=init)


@pytest.mark.parametrize(("epoch", "sent"), [(-1, 0), (5, 5)])
def test_a_hanging_transaction_gets_the_marker_of_an_abort(epoch: int, sent: int) -> None:
    codes = [ErrorCode.none, ErrorCode.transaction_coordinator_fenced]

    def markers(request: ReceivedRequest) -> Any:
        (marker,) = request.body.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 2, False)
        assert marker.coordinator_epoch == sent
        (topic,) = marker.topics
        assert (topic.name, tuple(topic.partition_indexes)) == ("t", (0,))
        new = request.types.new
        result = new("WritableTxnMarkerPartitionResult", partition_index=0, error_code=codes.pop(0))
        rows = [new("WritableTxnMarkerTopicResult", name="t", partitions=[result])]
        return request.types.message(markers=[new("WritableTxnMarkerResult", producer_id=7, topics=rows)])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        simulation.brokers.create_topic("t")
        producer = ActiveProducer(7, 2, 0, 0, epoch, 40)
        await admin.transactions.abort_hanging(T0, producer)
        with pytest.raises(
            OperationError, match="the transaction in t-0 was not aborted: transaction_coordinator_fenced"
        ):
            await admin.transactions.abort_hanging(T0, producer)

    with_admin(test, WRITE_TXN_MARKERS=markers)
