from __future__ import annotations

from crabka.security.quotas.token_bucket import TokenBucket
from crabka.security.quotas.windows import WindowSettings

SETTINGS = WindowSettings(count=100, length_ms=1000)
RATE = 5.0


def test_a_burst_waits_for_its_excess_only() -> None:
    """The example of KIP-599: 560 changes at 5 per second and 100 windows wait for 12 s, not for 100 s."""
    bucket = TokenBucket(SETTINGS, RATE, 0)
    bucket.take(560, RATE, 0)
    assert bucket.throttle_ms(RATE, 0) == 12_000
    assert bucket.throttle_ms(RATE, 11_999) == 1
    assert bucket.throttle_ms(RATE, 12_000) == 0


def test_a_bucket_holds_no_more_than_its_windows() -> None:
    bucket = TokenBucket(SETTINGS, RATE, 0)
    bucket.take(501, RATE, 10_000_000)
    assert bucket.throttle_ms(RATE, 10_000_000) == 200


def test_a_new_quota_counts_from_now_on() -> None:
    bucket = TokenBucket(SETTINGS, RATE, 0)
    bucket.take(600, RATE, 0)
    assert bucket.throttle_ms(50.0, 0) == 2000
