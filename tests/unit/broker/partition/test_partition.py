"""A hosted partition: leadership, epochs, ISR, high watermark."""

from __future__ import annotations

import pytest

from crabka.broker.partition.partition import Partition, RequiredOffset
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.storage.replicas import EPOCH, LedPartition, replicated_image
from tests.support.storage.small import make_batch


@pytest.fixture
def partition(node: SimNode) -> Partition:
    node.create_topic("t")
    return node.context.partitions.by_name("t", 0)


def code_of(caught: pytest.ExceptionInfo[OperationError]) -> ErrorCode:
    return caught.value.error_code


def test_a_new_epoch_is_recorded_before_the_first_append(node: SimNode, partition: Partition) -> None:
    partition.append(batch(b"a"), parse_header(batch(b"a")), node.clock.now_ms())
    partition.become(replicated_image(1, replicas=(1,), leader=1, leader_epoch=5), node_id=1)
    assert partition.log.end_offset_for_epoch(5) == (5, 1)
    assert partition.log.end_offset_for_epoch(0) == (0, 1)


@pytest.mark.parametrize(
    ("asked", "code"), [(3, ErrorCode.fenced_leader_epoch), (5, ErrorCode.unknown_leader_epoch), (4, None), (-1, None)]
)
def test_the_epoch_of_a_client_is_checked(partition: Partition, asked: int, code: ErrorCode | None) -> None:
    partition.become(replicated_image(1, replicas=(1,), leader=1, leader_epoch=4), node_id=1)
    if code is None:
        partition.require_leader(asked)
        return
    with pytest.raises(OperationError) as caught:
        partition.require_leader(asked)
    assert code_of(caught) is code


def test_a_partition_led_elsewhere_is_refused(partition: Partition) -> None:
    partition.become(replicated_image(1, replicas=(1,), leader=2, leader_epoch=4), node_id=1)
    with pytest.raises(OperationError) as caught:
        partition.require_leader()
    assert code_of(caught) is ErrorCode.not_leader_or_follower


def test_the_minimum_isr_is_capped_by_the_replicas(node: SimNode, partition: Partition) -> None:
    node.set_configs(4, "", min_insync_replicas="2")
    assert partition.log.config.min_insync_replicas == 2
    partition.require_min_isr()
    partition.become(replicated_image(1, replicas=(1, 2), leader_epoch=0), node_id=1)
    with pytest.raises(OperationError) as caught:
        partition.require_min_isr()
    assert code_of(caught) is ErrorCode.not_enough_replicas


def test_the_high_watermark_follows_the_only_replica(node: SimNode, partition: Partition) -> None:
    records = batch(b"a", b"b")
    result = partition.append(records, parse_header(records), node.clock.now_ms())
    assert (result.first_offset, result.last_offset, partition.log.high_watermark) == (0, 1, 2)


def test_a_retired_partition_says_why(partition: Partition) -> None:
    partition.retire(ErrorCode.kafka_storage_error)
    with pytest.raises(OperationError) as caught:
        partition.require_leader()
    assert code_of(caught) is ErrorCode.kafka_storage_error


def test_a_lone_replica_keeps_no_state_of_others() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    assert led.partition.replication is None
    led.append(3)
    assert led.high_watermark == 3


def test_the_high_watermark_waits_for_the_isr() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    assert led.high_watermark == 0
    led.fetch(3, 2)
    assert led.high_watermark == 2
    led.fetch(3, 3)
    assert led.high_watermark == 3


def test_an_append_alone_moves_the_high_watermark_of_a_leader_without_followers_in_sync() -> None:
    led = LedPartition(replicated_image(1))
    led.append(3)
    assert led.high_watermark == 3


def test_below_min_isr_the_high_watermark_stands_still() -> None:
    led = LedPartition(replicated_image(1), min_isr=2)
    led.append(3)
    assert led.high_watermark == 0
    with pytest.raises(OperationError) as caught:
        led.partition.require_min_isr()
    assert caught.value.error_code is ErrorCode.not_enough_replicas


def test_published_isr_lets_the_high_watermark_rise() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    # Who was in sync just now is about to join again, and would be waited for.
    led.world.now_ms = 1001
    led.become(replicated_image(1, 2, partition_epoch=11))
    assert (led.high_watermark, led.partition.in_sync_count) == (3, 2)


def test_older_metadata_of_the_same_epoch_changes_nothing() -> None:
    led = LedPartition(replicated_image(1, 2, partition_epoch=11))
    led.become(replicated_image(1, 2, 3, partition_epoch=10))
    assert led.partition.in_sync_count == 2


def test_a_new_leader_keeps_the_high_watermark_it_had_as_follower() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    log = led.partition.log
    log.copying.append_as_follower(make_batch(5, leader_epoch=4))
    log.set_high_watermark(3)
    led.become(replicated_image())
    assert led.high_watermark == 3
    replication = led.partition.replication
    assert replication is not None
    assert replication.epoch_start_offset == 5
    assert log.end_offset_for_epoch(4) == (4, 5)


def test_replicas_that_are_added_to_a_lone_one_come_after_what_is_committed() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    led.append(4)
    led.become(replicated_image(1, replicas=(1, 2), partition_epoch=11))
    replication = led.partition.replication
    assert replication is not None
    assert (led.high_watermark, led.partition.replica_count) == (4, 2)
    led.fetch(2, 3)
    assert led.world.proposals == []
    led.fetch(2, 4)
    assert [proposal.isr for proposal in led.world.proposals] == [(1, 2)]


def test_an_acknowledgement_waits_for_the_high_watermark_and_says_if_it_is_not_safe() -> None:
    led = LedPartition(min_isr=2)
    led.append(3)
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is None
    led.fetch(2, 3)
    led.fetch(3, 3)
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is ErrorCode.none
    led.become(replicated_image(1, partition_epoch=11))
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is ErrorCode.not_enough_replicas_after_append


def test_an_acknowledgement_counts_in_its_epoch_alone() -> None:
    led = LedPartition()
    led.append(3)
    once, spanning = RequiredOffset(3, EPOCH), RequiredOffset(3, EPOCH, spans_epochs=True)
    led.become(replicated_image(leader_epoch=EPOCH + 1))
    assert led.partition.acknowledgement(once) is ErrorCode.not_leader_or_follower
    # No other node led: the records are still those that were appended.
    assert led.partition.acknowledgement(spanning) is None
    led.become(replicated_image(leader=2, leader_epoch=EPOCH + 2))
    assert led.partition.acknowledgement(spanning) is ErrorCode.not_leader_or_follower
    led.become(replicated_image(1, leader_epoch=EPOCH + 3))
    assert led.high_watermark == 3
    assert led.partition.acknowledgement(spanning) is ErrorCode.not_leader_or_follower
    assert not led.partition.has_led_since(EPOCH + 2)
    assert led.partition.has_led_since(EPOCH + 3)


@pytest.mark.parametrize(("asked", "code"), [(4, "fenced_leader_epoch"), (6, "unknown_leader_epoch")])
def test_the_epoch_is_checked_of_a_follower_as_well(asked: int, code: str) -> None:
    led = LedPartition(replicated_image(leader=2))
    led.partition.require_epoch(-1)
    led.partition.require_epoch(5)
    with pytest.raises(OperationError) as caught:
        led.partition.require_epoch(asked)
    assert caught.value.error_code.name == code
