"""Markers in partitions of this node."""

from __future__ import annotations

from crabka.broker.transactions.ports import TxnMarker
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, parse_control_record
from tests.support.coordinators.members import find_coordinator
from tests.support.coordinators.txn_partitions import fake_coordinator, produce, transactional_batch
from tests.support.moves.partitions import HeldWatermark, Posted
from tests.support.nodes.sim_node import SimNode, read_records, row

PLACE = TopicPartition("t", 0)


def write(node: SimNode, *places: TopicPartition, epoch: int = 1, coordinator_epoch: int = 4) -> list[ErrorCode]:
    marker = TxnMarker(7, epoch, coordinator_epoch, commit=True, partitions=places, transaction_version=2)
    (results,) = node.run(node.context.markers.write([marker]))
    return [results[place] for place in places]


def test_the_marker_reports_who_wrote_it(node: SimNode) -> None:
    node.create_topic("t")
    assert write(node, PLACE) == [ErrorCode.none]
    (record,) = read_records(node.fetch("t").records)
    assert parse_control_record(record) == EndTransactionMarker(committed=True, coordinator_epoch=4)


def test_a_marker_that_is_sent_again_is_no_error(node: SimNode) -> None:
    node.create_topic("t")
    fake_coordinator(node)
    produce(node, "t", transactional_batch(b"v"))
    assert write(node, PLACE) + write(node, PLACE) == [ErrorCode.none] * 2
    assert node.fetch("t").last_stable_offset == 3


def test_an_old_coordinator_is_fenced(node: SimNode) -> None:
    node.create_topic("t")
    write(node, PLACE)
    assert write(node, PLACE, coordinator_epoch=3) == [ErrorCode.transaction_coordinator_fenced]


def test_partitions_are_answered_each_for_itself(node: SimNode) -> None:
    node.create_topic("t")
    codes = write(node, TopicPartition("nope", 0), PLACE)
    assert codes == [ErrorCode.unknown_topic_or_partition, ErrorCode.none]


def test_groups_that_are_not_loaded_are_not_ready_for_a_marker(node: SimNode) -> None:
    find_coordinator(node)
    hosted = node.context.groups.shards.get(0)
    hosted.is_active = False
    place = TopicPartition("__consumer_offsets", 0)
    assert write(node, place) == [ErrorCode.not_leader_or_follower]
    assert hosted.partition.log.log_end_offset == 0
    hosted.is_active = True
    assert write(node, place) == [ErrorCode.none]


def test_a_marker_goes_through_a_slow_log_dir_in_its_turn(node: SimNode) -> None:
    node.create_topic("t", compression_type="gzip", message_timestamp_type="LogAppendTime")
    fake_coordinator(node)
    partition = node.context.partitions.by_name("t", 0)
    partition.writer.note_append(partition.writer.slow_append_ms * 100)
    assert partition.writer.is_slow
    assert produce(node, "t", transactional_batch(b"v")).error_code == ErrorCode.none
    assert write(node, PLACE) == [ErrorCode.none]
    assert node.fetch("t").last_stable_offset == 2


def test_a_marker_is_answered_when_it_is_replicated(node: SimNode) -> None:
    node.create_topic("t")
    held = HeldWatermark(node, node.context.partitions.by_name(*PLACE))
    marker = row(
        "WritableTxnMarker",
        producer_id=7,
        producer_epoch=1,
        transaction_result=True,
        topics=[row("WritableTxnMarkerTopic", name="t", partition_indexes=(0,))],
        coordinator_epoch=4,
        transaction_version=2,
    )
    writing = Posted(node, ApiKey.WRITE_TXN_MARKERS, 2, markers=[marker])
    assert not writing.is_answered
    held.advance()
    assert writing.answer().markers[0].topics[0].partitions[0].error_code is ErrorCode.none
