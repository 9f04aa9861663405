"""The rate and the wait of a client, with the numbers that Kafka gives for the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.security.quotas.windows import MAX_THROTTLE_MS, RateWindows, WindowSettings

QUOTA = 500


def test_a_burst_is_spread_over_the_windows_that_are_left() -> None:
    """Ten windows of 400 bytes are below 500 per second; 2,300 in half a window make 600 over 10.5 seconds."""
    windows = RateWindows(WindowSettings())
    for second in range(10):
        windows.record(400, second * 1000)
        assert windows.throttle_ms(QUOTA, second * 1000) == 0
    windows.record(2300, 10_500)
    assert windows.rate(10_500) == 600
    assert windows.throttle_ms(QUOTA, 10_500) == 2100


def test_a_client_that_has_just_begun_is_measured_over_full_windows() -> None:
    windows = RateWindows(WindowSettings())
    windows.record(5000, 0)
    assert (windows.rate(0), windows.throttle_ms(QUOTA, 0)) == (500, 0)
    windows.record(500, 0)
    assert windows.throttle_ms(QUOTA, 0) == 1000


def test_what_is_older_than_the_windows_does_not_count() -> None:
    windows = RateWindows(WindowSettings())
    windows.record(1_000_000, 0)
    assert windows.rate(10_999) > 0
    assert windows.rate(11_000) == 0


def test_what_is_taken_back_was_never_used() -> None:
    windows = RateWindows(WindowSettings())
    windows.record(100, 0)
    windows.record(10_000, 300)
    windows.record(-10_000, 300)
    assert windows.rate(300) == 10 / (1 + 0.03)


def test_a_single_window_has_a_length_from_the_start() -> None:
    windows = RateWindows(WindowSettings(count=1, length_ms=2000))
    windows.record(3000, 0)
    assert windows.rate(0) == 1500


def test_no_wait_is_longer_than_the_protocol_can_say() -> None:
    windows = RateWindows(WindowSettings())
    windows.record(1e15, 0)
    assert windows.throttle_ms(1, 0) == MAX_THROTTLE_MS


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 5000)), min_size=1, max_size=60))
def test_a_client_that_waits_as_long_as_it_is_asked_keeps_to_its_quota(requests: list[tuple[int, int]]) -> None:
    windows, now_ms, total = RateWindows(WindowSettings()), 0, 0.0
    for pause_ms, amount in requests:
        now_ms += pause_ms
        windows.record(amount, now_ms)
        total += amount
        now_ms += windows.throttle_ms(QUOTA, now_ms)
    # Ten windows may be used up at once at the start, and a request more.
    assert total <= QUOTA * (now_ms / 1000 + 11) + 5000
