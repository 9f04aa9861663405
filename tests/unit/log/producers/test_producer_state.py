from __future__ import annotations

import pytest

from crabka.errors import OperationError
from crabka.log.producers.producer_state import AppendOrigin, ProducerEntry, ProducerStateManager
from crabka.log.producers.verification import Verification
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker
from crabka.records.header import MAX_SEQUENCE, BatchHeader, parse_header
from tests.support.storage.small import NOW_MS, ProducerFields, make_batch

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
    # Answering "duplicate" here would confirm records that no consumer has seen.
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


@pytest.mark.parametrize("transactional", [False, True])
def test_an_epoch_below_all_epochs_is_refused_without_state_as_well(transactional: bool) -> None:
    state = ProducerStateManager()
    assert refused(state, header(0, epoch=-2, transactional=transactional)) is ErrorCode.invalid_producer_epoch
    with pytest.raises(OperationError) as caught:
        state.check_marker(9, -32768, COMMIT)
    assert caught.value.error_code is ErrorCode.invalid_producer_epoch
    assert state.check(header(0, epoch=-1, transactional=transactional), AppendOrigin.CLIENT) is None
    state.check_marker(9, -1, COMMIT)


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


def begin(state: ProducerStateManager, *, epoch: int = 0, sequence: int = 0, bump: bool = False) -> Verification | None:
    return state.begin_verification(9, epoch, sequence=sequence, now_ms=0, supports_epoch_bump=bump)


def guarded(
    state: ProducerStateManager, batch: BatchHeader, guard: Verification | None, *, client: bool = True
) -> ErrorCode:
    origin = AppendOrigin.CLIENT if client else AppendOrigin.COORDINATOR
    try:
        assert state.check(batch, origin, guard=guard) is None
    except OperationError as error:
        return error.error_code
    return ErrorCode.none


def marker_header(epoch: int) -> BatchHeader:
    return header(-1, epoch=epoch, transactional=True)


def test_the_first_batch_of_a_transaction_needs_a_guard() -> None:
    state = ProducerStateManager()
    batch = header(0, transactional=True)
    assert guarded(state, batch, None) is ErrorCode.invalid_txn_state
    assert guarded(state, batch, None, client=False) is ErrorCode.invalid_txn_state
    guard = begin(state)
    assert begin(state) is guard
    assert guarded(state, batch, guard) is ErrorCode.none
    state.apply(batch, 0)
    assert begin(state) is None
    assert guarded(state, header(1, transactional=True), None) is ErrorCode.none
    assert not state.verifications


def test_an_answer_that_comes_after_the_end_of_the_transaction_lets_nothing_in() -> None:
    state = ProducerStateManager()
    guard = begin(state)
    state.apply_marker(marker_header(0), 5, EndTransactionMarker(committed=False, coordinator_epoch=0))
    assert guarded(state, header(0, transactional=True), guard) is ErrorCode.invalid_txn_state
    later = begin(state)
    assert later is not guard
    assert guarded(state, header(0, transactional=True), guard) is ErrorCode.invalid_txn_state
    assert guarded(state, header(0, transactional=True), later) is ErrorCode.none


def test_the_marker_of_the_last_transaction_leaves_the_question_about_the_next() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True), 0)
    guard = begin(state, epoch=1, bump=True)
    state.apply_marker(marker_header(1), 1, EndTransactionMarker(committed=True, coordinator_epoch=0))
    assert guarded(state, header(0, epoch=1, transactional=True), guard) is ErrorCode.none


def test_an_open_transaction_of_another_epoch_vouches_for_nothing() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True), 0)
    assert guarded(state, header(0, epoch=1, transactional=True), None) is ErrorCode.invalid_txn_state


def test_a_fenced_producer_need_not_ask() -> None:
    with pytest.raises(OperationError) as refusal:
        begin(state_after(0, epoch=2), epoch=1)
    assert refusal.value.error_code is ErrorCode.invalid_producer_epoch


def test_a_batch_does_not_overtake_an_earlier_one_that_waits() -> None:
    state = ProducerStateManager()
    guard = begin(state, sequence=3)
    assert guarded(state, header(4, transactional=True), guard) is ErrorCode.out_of_order_sequence_number
    assert guarded(state, header(3, transactional=True), guard) is ErrorCode.none


def test_a_producer_that_bumps_its_epoch_begins_with_sequence_zero() -> None:
    state = ProducerStateManager()
    guard = begin(state, sequence=3, bump=True)
    assert guarded(state, header(3, transactional=True), guard) is ErrorCode.out_of_order_sequence_number
    begin(state, sequence=0, bump=True)
    assert guarded(state, header(0, transactional=True), guard) is ErrorCode.none


def test_after_a_marker_with_a_higher_epoch_sequences_begin_at_zero() -> None:
    state = ProducerStateManager()
    state.apply(header(0, transactional=True), 0)
    state.apply_marker(marker_header(1), 1, EndTransactionMarker(committed=True, coordinator_epoch=0))
    assert refused(state, header(1, epoch=1)) is ErrorCode.out_of_order_sequence_number
    assert state.check(header(0, epoch=1), AppendOrigin.CLIENT) is None


def test_questions_that_were_never_answered_expire() -> None:
    state = ProducerStateManager()
    begin(state)
    state.remove_expired(99, 100)
    assert state.verifications
    state.remove_expired(100, 100)
    assert not state.verifications


@pytest.mark.parametrize(
    ("data_epoch", "marker_epoch", "version", "is_open", "accepted"),
    [
        (3, 3, 1, True, True),
        (3, 4, 1, True, True),
        (3, 2, 1, True, False),
        (3, 4, 2, True, True),
        (3, 3, 2, True, False),
        (3, 2, 2, True, False),
        # Sent again after it was written.
        (3, 3, 2, False, True),
        # There is no epoch above the last one.
        (32767, 32767, 2, True, True),
    ],
)
def test_epochs_of_markers(data_epoch: int, marker_epoch: int, version: int, is_open: bool, accepted: bool) -> None:
    state = ProducerStateManager()
    state.apply(header(0, epoch=data_epoch, transactional=is_open), 0)
    marker = EndTransactionMarker(committed=True, coordinator_epoch=0)
    if accepted:
        state.check_marker(9, marker_epoch, marker, version)
    else:
        with pytest.raises(OperationError) as refusal:
            state.check_marker(9, marker_epoch, marker, version)
        assert refusal.value.error_code is ErrorCode.invalid_producer_epoch
