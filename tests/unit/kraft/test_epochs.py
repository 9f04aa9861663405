from __future__ import annotations

from crabka.kraft.epochs import MAX_EPOCH, EpochGuard
from crabka.kraft.settings import KraftSettings

SETTINGS = KraftSettings(request_epochs=10, request_epochs_window_ms=1_000, response_epochs=100)


def test_requests_share_the_epochs_of_a_window() -> None:
    guard = EpochGuard(SETTINGS)
    assert guard.take_request(5, 5, 0)
    assert not guard.take_request(5, 16, 0)
    assert guard.take_request(5, 14, 0)
    assert guard.take_request(14, 15, 500)
    assert not guard.take_request(15, 16, 999)
    assert guard.take_request(15, 25, 1_000)
    assert not guard.take_request(25, 26, 1_999)


def test_what_is_learned_otherwise_costs_nothing() -> None:
    guard = EpochGuard(SETTINGS)
    assert guard.take_request(5, 6, 0)
    assert guard.take_request(5_000, 5_009, 1)


def test_nothing_lies_behind_the_largest_epoch() -> None:
    guard = EpochGuard(SETTINGS)
    assert not guard.take_request(MAX_EPOCH, MAX_EPOCH + 1, 0)
    assert guard.take_request(MAX_EPOCH - 1, MAX_EPOCH, 0)
    assert not guard.allows_response(MAX_EPOCH, MAX_EPOCH + 1)


def test_an_answer_may_be_further_ahead_than_a_request() -> None:
    guard = EpochGuard(SETTINGS)
    assert guard.allows_response(5, 105)
    assert not guard.allows_response(5, 106)
