from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from crabka.errors import OperationError
from crabka.log.producer_state import AppendOrigin, ProducerEntry, ProducerStateManager
from crabka.records.control import EndTransactionMarker
from crabka.records.header import MAX_SEQUENCE, BatchHeader, parse_header
from tests.support.logs import NOW_MS, ProducerFields, make_batch

COMMIT = EndTransactionMarker(committed=True, coordinator_epoch=3)
ABORT = EndTransactionMarker(committed=False, coordinator_epoch=3)


def header(sequence: int, *, count: int = 1, epoch: int = 0, transactional: bool = False) -> BatchHeader:
    batch = make_batch(count, producer=ProducerFields(9, epoch, 0), transactional=transactional)
    return parse_header(batch)._replace(base_sequence=sequence)


def state_after(*sequences: int, epoch: int = 0) -> ProducerStateManager:
    """Return the state after batches of one record, at offsets from 100 on."""
    state = ProducerStateManager()
    for index, sequence in enumerate(sequences):
        state.apply(header(sequence, epoch=epoch), 100 + index)
    return state


def refused(state: ProducerStateManager, batch: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> ErrorCode:
    with pytest.raises(OperationError) as caught:
        state.check(batch, origin)
    return caught.value.error_code


def test_a_producer_without_state_may_start_with_any_sequence() -> None:
    assert ProducerStateManager().check(header(42), AppendOrigin.CLIENT) is None


def test_the_next_sequence_is_accepted() -> None:
    assert state_after(0, 1).check(header(2), AppendOrigin.CLIENT) is None


def test_sequences_wrap_to_zero() -> None:
    assert state_after(MAX_SEQUENCE).check(header(0), AppendOrigin.CLIENT) is None
    state = state_after(MAX_SEQUENCE - 1)
    state.apply(header(MAX_SEQUENCE, count=3), 101)
    assert state.entries[9].last_sequence == 1
    duplicate = state.check(header(MAX_SEQUENCE, count=3), AppendOrigin.CLIENT)
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (101, 103)


@pytest.mark.parametrize("sequence", [3, 4, 5, 6, 7])
def test_each_of_the_last_five_batches_is_known_again(sequence: int) -> None:
    duplicate = state_after(*range(8)).check(header(sequence), AppendOrigin.CLIENT)
    assert duplicate is not None
    assert duplicate.first_offset == 100 + sequence


def test_an_older_batch_is_a_duplicate_without_offsets() -> None:
    assert refused(state_after(*range(8)), header(2)) is ErrorCode.duplicate_sequence_number


def test_a_batch_from_before_the_known_sequences_is_out_of_order() -> None:
    # Answering "duplicate" here would tell the producer that records are stored which nobody has seen.
    assert refused(state_after(*range(20, 28)), header(19)) is ErrorCode.out_of_order_sequence_number


def test_a_batch_that_overlaps_a_known_one_is_out_of_order() -> None:
    assert refused(state_after(0, 1, 2), header(1, count=2)) is ErrorCode.out_of_order_sequence_number


def test_a_gap_is_out_of_order() -> None:
    assert refused(state_after(0, 1), header(3)) is ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_starts_with_zero() -> None:
    state = state_after(0, 1)
    assert state.check(header(0, epoch=1), AppendOrigin.CLIENT) is None
    assert refused(state, header(2, epoch=1)) is ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    state = state_after(0, 1)
    state.apply(header(0, epoch=1), 102)
    assert [mark.last_offset for mark in state.entries[9].batches] == [102]
    assert refused(state, header(0, epoch=0)) is ErrorCode.invalid_producer_epoch


def test_an_old_epoch_is_fenced_for_coordinators_too() -> None:
    assert refused(state_after(0, epoch=2), header(1, epoch=1), AppendOrigin.COORDINATOR) is (
        ErrorCode.invalid_producer_epoch
    )


def test_coordinators_write_without_sequences() -> None:
    assert state_after(0).check(header(-1), AppendOrigin.COORDINATOR) is None


def test_plain_records_within_a_transaction_are_refused() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True), 100)
    assert refused(state, header(1)) is ErrorCode.invalid_txn_state
    assert state.check(header(1, transactional=True), AppendOrigin.CLIENT) is None


def test_an_open_transaction_holds_the_stable_offset_until_its_marker_is_replicated() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True), 100)
    state.apply(header(1, transactional=True), 101)
    assert state.first_unstable_offset == state.first_undecided_offset == 100
    completed = state.apply_marker(header(-1, epoch=1), 102, COMMIT)
    assert completed is not None
    assert (completed.first_offset, completed.last_offset, completed.aborted) == (100, 102, False)
    assert state.first_undecided_offset is None
    state.on_high_watermark(102)
    assert state.first_unstable_offset == 100
    state.on_high_watermark(103)
    assert state.first_unstable_offset is None


def test_the_stable_offset_after_an_abort_is_the_next_open_transaction() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True)._replace(producer_id=1), 10)
    state.apply(header(0, transactional=True)._replace(producer_id=2), 12)
    first = state.apply_marker(header(-1)._replace(producer_id=1), 14, ABORT)
    assert first is not None
    assert state.last_stable_offset_after(first) == 12
    second = state.apply_marker(header(-1)._replace(producer_id=2), 15, ABORT)
    assert second is not None
    assert state.last_stable_offset_after(second) == 16


def test_a_marker_without_a_transaction_completes_nothing() -> None:
    state = ProducerStateManager()
    assert state.apply_marker(header(-1, epoch=4), 7, ABORT) is None
    assert (state.entries[9].producer_epoch, state.entries[9].coordinator_epoch) == (4, 3)


def test_markers_of_old_producers_and_coordinators_are_refused() -> None:
    state = ProducerStateManager()
    state.check_marker(9, 0, ABORT)
    state.apply_marker(header(-1, epoch=4), 7, ABORT)
    with pytest.raises(OperationError) as fenced:
        state.check_marker(9, 3, ABORT)
    assert fenced.value.error_code is ErrorCode.invalid_producer_epoch
    with pytest.raises(OperationError) as zombie:
        state.check_marker(9, 4, EndTransactionMarker(committed=True, coordinator_epoch=2))
    assert zombie.value.error_code is ErrorCode.transaction_coordinator_fenced


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    state = state_after(0)
    state.apply(header(0, transactional=True)._replace(producer_id=1), 200)
    state.remove_expired(NOW_MS + 999, 1000)
    assert set(state.entries) == {1, 9}
    state.remove_expired(NOW_MS + 1000, 1000)
    assert set(state.entries) == {1}


def test_loading_replaces_everything() -> None:
    state = state_after(0)
    first, second = ProducerEntry(1), ProducerEntry(2)
    first.txn_first_offset, second.txn_first_offset = 50, 40
    state.load([first, second], 60)
    assert [entry.producer_id for entry in state.active_producers()] == [1, 2]
    assert state.first_undecided_offset == 40
    assert state.map_end_offset == 60
    assert first.current_txn_first_offset == 50
