"""The coordinator on a whole node: restarts, crashes, timeouts, expiry."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.transactions.ports import TxnMarker
from crabka.errors import CrabkaError, OperationError
from crabka.log.recovery.replay import end_marker
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.coordinators.transactions import T0, T1, NodeProducer, control_markers
from tests.support.moves.partitions import NO_LEADER, HeldWatermark, Posted, lead
from tests.support.nodes.sim_node import SimNode
from tests.support.recorded.batches import batches_in


@pytest.fixture
def producer(node: SimNode) -> NodeProducer:
    node.create_topic("t", 2)
    producer = NodeProducer(node)
    assert producer.init() is ErrorCode.none
    return producer


def test_markers_carry_the_epoch_above_the_data(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    assert producer.add_by_broker(partitions=(0, 1)) == [ErrorCode.none] * 2
    epoch = producer.epoch
    assert producer.end() is ErrorCode.none
    assert producer.epoch == epoch + 1
    coordinator_epoch = node.context.transactions.find("id")[0].partition.leader_epoch
    assert markers.written == [TxnMarker(producer.producer_id, epoch + 1, coordinator_epoch, True, (T0, T1), 2)]
    assert producer.state == "CompleteCommit"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_outcome_survives_a_restart_and_is_completed(clean: bool, commit: bool) -> None:
    with SimNode({"log.flush.interval.messages": "1"}) as node:
        node.create_topic("t")
        producer = NodeProducer(node)
        producer.init()
        control_markers(node).answers = {T0: ErrorCode.not_leader_or_follower}
        producer.add_by_broker()
        assert producer.end(commit=commit) is ErrorCode.none
        assert producer.state == ("PrepareCommit" if commit else "PrepareAbort")
        if clean:
            node.restart()
        else:
            node.crash()
            node.start()
        node.advance(500)
        assert producer.state == ("CompleteCommit" if commit else "CompleteAbort")
        written = memoryview(list(batches_in(bytes(node.fetch("t").records)))[-1])
        marker = end_marker(written, parse_header(written))
        assert marker is not None
        assert marker.committed is commit
        assert producer.add_by_broker() == [ErrorCode.none]


def test_an_open_transaction_goes_on_after_a_restart(node: SimNode, producer: NodeProducer) -> None:
    producer.add_by_broker()
    node.restart()
    control_markers(node)
    node.advance(10)
    assert producer.add_by_broker(verify_only=True, partitions=(0, 1)) == [
        ErrorCode.none,
        ErrorCode.transaction_abortable,
    ]
    assert producer.end() is ErrorCode.none


def test_a_transaction_over_its_timeout_is_aborted_by_the_node(node: SimNode) -> None:
    node.create_topic("t")
    markers = control_markers(node)
    producer = NodeProducer(node)
    producer.init(timeout_ms=5_000)
    producer.add_by_broker()
    node.advance(4_000)
    assert producer.state == "Ongoing"
    node.advance(20_000)
    assert producer.state == "CompleteAbort"
    assert [marker.commit for marker in markers.written] == [False]
    assert producer.end() is ErrorCode.invalid_txn_state
    assert producer.add_by_broker() == [ErrorCode.producer_fenced]


def test_unused_ids_expire_for_good() -> None:
    settings = {
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    with SimNode(settings) as node:
        producer = NodeProducer(node)
        producer.init()
        node.advance(58_000)
        assert producer.describe().error_code is ErrorCode.none
        node.advance(4_000)
        assert producer.describe().error_code is ErrorCode.transactional_id_not_found
        node.restart()
        assert producer.describe().error_code is ErrorCode.transactional_id_not_found


def test_a_new_producer_fences_the_old_one(node: SimNode, producer: NodeProducer) -> None:
    control_markers(node)
    producer.add_by_broker()
    heir = NodeProducer(node)
    assert heir.init() is ErrorCode.concurrent_transactions
    assert heir.init() is ErrorCode.none
    assert (heir.producer_id, heir.epoch) == (producer.producer_id, producer.epoch + 2)
    assert producer.add_by_broker() == [ErrorCode.producer_fenced]
    assert producer.end() is ErrorCode.producer_fenced


def test_what_cannot_be_stored_is_reported_and_did_not_happen(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    partition = node.context.transactions.find("id")[0].partition
    partition.in_sync_count = 0
    assert producer.add_by_broker() == [ErrorCode.coordinator_not_available]
    partition.in_sync_count = 1
    producer.add_by_broker()
    partition.in_sync_count = 0
    assert producer.end() is ErrorCode.coordinator_not_available
    assert producer.state == "Ongoing"
    partition.in_sync_count = 1
    assert producer.end() is ErrorCode.none
    assert len(markers.written) == 1


def test_the_last_record_is_tried_again_until_it_is_stored(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    partition = node.context.transactions.find("id")[0].partition
    producer.add_by_broker()
    markers.answers = {T0: ErrorCode.not_leader_or_follower}
    producer.end()
    partition.in_sync_count = 0
    markers.answers = {}
    node.advance(500)
    assert producer.state == "PrepareCommit"
    partition.in_sync_count = 1
    node.advance(500)
    assert producer.state == "CompleteCommit"


def test_a_used_up_producer_id_is_replaced(node: SimNode, producer: NodeProducer) -> None:
    control_markers(node)
    _, transaction = node.context.transactions.find("id")
    assert transaction is not None
    transaction.current = transaction.current.follow(transaction.current.state, producer_epoch=32766)
    producer.epoch, old = 32766, producer.producer_id
    assert producer.add_by_broker() == [ErrorCode.none]
    assert producer.end() is ErrorCode.none
    assert producer.epoch == 0
    assert producer.producer_id != old
    assert producer.add_by_broker() == [ErrorCode.none]


def test_deleting_the_topic_ends_the_coordinator(node: SimNode, producer: NodeProducer) -> None:
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["__transaction_state"], timeout=1000)
    assert producer.add_by_broker() == [ErrorCode.not_coordinator]
    assert producer.end() is ErrorCode.not_coordinator
    assert producer.init() is ErrorCode.not_coordinator


def test_ids_are_refused_while_they_are_loaded(node: SimNode, producer: NodeProducer) -> None:
    node.context.transactions.find("id")[0].is_active = False
    assert producer.init() is ErrorCode.coordinator_load_in_progress
    assert producer.describe().error_code is ErrorCode.coordinator_load_in_progress


def test_nothing_is_known_of_ids_that_never_began(node: SimNode) -> None:
    node.create_topic("t")
    producer = NodeProducer(node)
    assert producer.add_by_broker() == [ErrorCode.invalid_producer_id_mapping]
    assert producer.add_by_broker(verify_only=True) == [ErrorCode.invalid_producer_id_mapping]
    assert producer.end() is ErrorCode.invalid_producer_id_mapping


# -- replication that takes its time -----------------------------------------------------------------------------


def hold(node: SimNode) -> HeldWatermark:
    return HeldWatermark(node, node.context.transactions.find("id")[0].partition)


def post_end(node: SimNode, producer: NodeProducer, *, commit: bool = True) -> Posted:
    return Posted(
        node,
        ApiKey.END_TXN,
        5,
        transactional_id="id",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )


def test_an_outcome_is_reported_and_sent_when_it_is_replicated(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    held = hold(node)
    ending = post_end(node, producer)
    assert not ending.is_answered
    assert producer.state == "Ongoing"
    # One change at a time.
    assert producer.add_by_broker(partitions=(1,)) == [ErrorCode.concurrent_transactions]
    assert producer.end(commit=False) is ErrorCode.concurrent_transactions
    assert markers.written == []
    held.advance()
    assert ending.answer().error_code is ErrorCode.none
    assert [marker.commit for marker in markers.written] == [True]
    assert producer.state == "PrepareCommit"
    held.advance()
    assert producer.state == "CompleteCommit"


def test_an_outcome_that_takes_too_long_may_be_asked_for_again(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    held = hold(node)
    ending = post_end(node, producer)
    node.advance(30_000)
    assert ending.answer().error_code is ErrorCode.coordinator_not_available
    assert producer.state == "Ongoing"
    assert markers.written == []
    held.let_go()
    assert producer.end() is ErrorCode.none
    assert [marker.commit for marker in markers.written] == [True]


def test_who_waits_is_notified_that_the_coordinator_moved(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    held = hold(node)
    ending = post_end(node, producer)
    lead(node, held.partition, NO_LEADER)
    assert ending.answer().error_code is ErrorCode.not_coordinator
    assert producer.init() is ErrorCode.not_coordinator
    node.advance(1_000)
    assert markers.written == []


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_coordinator_that_comes_back_knows_what_its_log_says(
    node: SimNode, producer: NodeProducer, is_lost: bool
) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    held = hold(node)
    post_end(node, producer)
    lead(node, held.partition, NO_LEADER)
    if is_lost:
        held.partition.log.truncation.truncate_to(held.partition.log.high_watermark)
    lead(node, held.partition, 1)
    node.advance(1_000)
    # An outcome that may still be lost is not reported.
    assert markers.written == []
    held.let_go()
    node.advance(10)
    if is_lost:
        assert producer.state == "Ongoing"
        assert producer.end() is ErrorCode.none
    assert producer.state == "CompleteCommit"
    (marker,) = markers.written
    assert marker.coordinator_epoch == held.partition.leader_epoch


def test_an_election_of_the_same_leader_ends_what_waits(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    held = hold(node)
    ending = post_end(node, producer)
    lead(node, held.partition, 1)
    node.advance(1_000)
    assert not ending.is_answered
    assert producer.add_by_broker() == [ErrorCode.coordinator_load_in_progress]
    held.let_go()
    # It is in the log, but this coordinator has gone.
    assert ending.answer().error_code is ErrorCode.not_coordinator
    node.advance(10)
    assert producer.state == "CompleteCommit"
    assert [each.coordinator_epoch for each in markers.written] == [held.partition.leader_epoch]


def test_markers_are_sent_by_the_new_coordinator_alone(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    markers.answers = {T0: ErrorCode.not_leader_or_follower}
    producer.add_by_broker()
    assert producer.end() is ErrorCode.none
    partition = node.context.transactions.find("id")[0].partition
    old_epoch = partition.leader_epoch
    node.advance(300)
    lead(node, partition, 1)
    node.advance(10)
    markers.written.clear()
    node.advance(1_000)
    assert {marker.coordinator_epoch for marker in markers.written} == {old_epoch + 1}
    lead(node, partition, NO_LEADER)
    node.advance(200)
    markers.written.clear()
    node.advance(1_000)
    assert markers.written == []


def test_an_id_that_arrives_late_is_not_used_by_a_coordinator_that_has_gone(
    node: SimNode, producer: NodeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    control_markers(node)
    hosted, transaction = node.context.transactions.find("id")
    assert transaction is not None
    transaction.current = transaction.current.follow(transaction.current.state, producer_epoch=32766)
    producer.epoch = 32766
    producer.add_by_broker()
    gate = asyncio.Event()

    async def allocate() -> int:
        await gate.wait()
        return 99

    monkeypatch.setattr(node.context.producer_ids, "allocate", allocate)
    ending = post_end(node, producer)
    lead(node, hosted.partition, 1)
    end_offset = hosted.partition.log.log_end_offset
    gate.set()
    assert ending.answer().error_code is ErrorCode.not_coordinator
    assert hosted.partition.log.log_end_offset == end_offset


def test_duties_leave_ids_of_others_alone(node: SimNode, producer: NodeProducer) -> None:
    markers = control_markers(node)
    producer.add_by_broker()
    lead(node, node.context.transactions.find("id")[0].partition, NO_LEADER)
    node.advance(200_000)
    assert markers.written == []
    assert list(node.context.transactions.transactions()) == []


@pytest.mark.parametrize(
    ("failure", "reported"),
    [
        (OperationError(ErrorCode.coordinator_load_in_progress), ErrorCode.coordinator_load_in_progress),
        (CrabkaError("no controller"), ErrorCode.coordinator_not_available),
        (KeyError("a bug"), ErrorCode.coordinator_not_available),
    ],
)
def test_an_end_without_the_id_that_it_needs_is_asked_for_again(
    node: SimNode, producer: NodeProducer, monkeypatch: pytest.MonkeyPatch, failure: Exception, reported: ErrorCode
) -> None:
    control_markers(node)
    _, transaction = node.context.transactions.find("id")
    assert transaction is not None
    transaction.current = transaction.current.follow(transaction.current.state, producer_epoch=32766)
    producer.epoch = 32766
    producer.add_by_broker()

    async def allocate() -> int:
        raise failure

    with monkeypatch.context() as away:
        away.setattr(node.context.producer_ids, "allocate", allocate)
        assert producer.end() is reported
    assert producer.end() is ErrorCode.none
