"""ISR changes on their way to the controller."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from crabka.broker.replication.isr_state import IsrState, ProposalFate, ProposedIsr
from crabka.errors import InvariantError
from crabka.metadata.topics import PartitionImage
from crabka.protocol.error_codes import ErrorCode

PARTITION = PartitionImage(
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=5,
    partition_epoch=10,
    directories=(uuid.UUID(int=100),) * 3,
)


def altered(*isr: int, partition_epoch: int = 11) -> PartitionImage:
    return replace(PARTITION, isr=isr, partition_epoch=partition_epoch)


@pytest.mark.parametrize(("isr", "maximal"), [((1, 2, 3), {1, 2, 3}), ((1,), {1, 2})])
def test_a_proposal_counts_only_where_that_is_safe(isr: tuple[int, ...], maximal: set[int]) -> None:
    state = IsrState(PARTITION)
    assert state.maximal_isr == {1, 2}
    proposal = state.propose(isr)
    assert proposal == ProposedIsr(isr, 10)
    assert (state.isr, set(state.maximal_isr)) == ((1, 2), maximal)
    assert state.answered(proposal, ErrorCode.none, altered(*isr)) is ProposalFate.COMMITTED
    assert (state.isr, set(state.maximal_isr), state.partition_epoch) == (isr, set(isr), 11)


def test_one_proposal_at_a_time() -> None:
    state = IsrState(PARTITION)
    state.propose((1,))
    with pytest.raises(InvariantError):
        state.propose((1, 2, 3))


@pytest.mark.parametrize("code", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_a_refused_proposal_leaves_the_isr_as_it_was(code: ErrorCode) -> None:
    state = IsrState(PARTITION)
    assert state.answered(state.propose((1, 2, 3)), code) is ProposalFate.REVERTED
    assert (set(state.maximal_isr), state.pending) == ({1, 2}, None)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.new_leader_elected,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_request,
    ],
)
def test_a_leader_that_is_out_of_date_assumes_the_worst_until_metadata_comes(code: ErrorCode) -> None:
    state = IsrState(PARTITION)
    assert state.answered(state.propose((1, 2, 3)), code) is ProposalFate.AWAITS_METADATA
    assert state.maximal_isr == {1, 2, 3}
    assert state.published(altered(1, 3, partition_epoch=12))
    assert (set(state.maximal_isr), state.pending) == ({1, 3}, None)


@pytest.mark.parametrize("code", [ErrorCode.not_controller, ErrorCode.network_exception, ErrorCode.request_timed_out])
def test_what_the_controller_has_not_decided_is_sent_again(code: ErrorCode) -> None:
    state = IsrState(PARTITION)
    proposal = state.propose((1,))
    assert state.answered(proposal, code) is ProposalFate.RETRY
    assert state.pending is proposal
    assert state.answered(proposal, ErrorCode.none, altered(1)) is ProposalFate.COMMITTED


def test_metadata_may_be_faster_than_the_answer() -> None:
    state = IsrState(PARTITION)
    proposal = state.propose((1, 2, 3))
    assert state.published(altered(1, 2, 3))
    assert state.answered(proposal, ErrorCode.none, altered(1, 2, 3)) is ProposalFate.OUTDATED
    again = state.propose((1,))
    assert state.answered(proposal, ErrorCode.ineligible_replica) is ProposalFate.OUTDATED
    assert state.pending is again


def test_metadata_that_is_older_or_the_same_changes_nothing() -> None:
    state = IsrState(PARTITION)
    proposal = state.propose((1,))
    assert state.published(altered(1, 2, 3, partition_epoch=10))
    assert not state.published(altered(1, 2, 3, partition_epoch=9))
    assert (state.pending, state.isr) == (proposal, (1, 2))


def test_an_answer_of_another_leader_epoch_is_not_taken_over() -> None:
    state = IsrState(PARTITION)
    other = replace(altered(1), leader_epoch=6)
    assert state.answered(state.propose((1,)), ErrorCode.none, other) is ProposalFate.AWAITS_METADATA
    assert state.isr == (1, 2)
    with pytest.raises(InvariantError):
        state.published(other)
