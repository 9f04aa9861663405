"""Questions to the coordinator of a transaction, as a log remembers them."""

from __future__ import annotations

from crabka.log.producers.verification import ANY_TERMS, NOT_REQUIRED, Verification


def test_the_lowest_sequence_of_an_epoch_is_kept() -> None:
    guard = Verification(3, 5, 0, supports_epoch_bump=False)
    guard.note(3, 7)
    assert guard.lowest_sequence == 5
    guard.note(3, 4)
    assert guard.lowest_sequence == 4
    guard.note(2, 0)
    assert (guard.epoch, guard.lowest_sequence) == (3, 4)


def test_a_higher_epoch_starts_anew() -> None:
    guard = Verification(3, 0, 0, supports_epoch_bump=False)
    guard.note(4, 9)
    assert (guard.epoch, guard.lowest_sequence) == (4, 9)


def test_only_a_producer_that_bumps_its_epoch_may_be_ahead_of_a_marker() -> None:
    assert Verification(4, 0, 0, supports_epoch_bump=True).survives_marker(4)
    assert not Verification(4, 0, 0, supports_epoch_bump=True).survives_marker(5)
    assert not Verification(4, 0, 0, supports_epoch_bump=False).survives_marker(4)


def test_without_terms_nothing_is_required() -> None:
    assert ANY_TERMS.guard is NOT_REQUIRED
