"""What clients used lately, and how long each has to wait for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from crabka.security.quotas.token_bucket import TokenBucket
from crabka.security.quotas.windows import RateWindows

if TYPE_CHECKING:
    from crabka.security.quotas.table import Applied
    from crabka.security.quotas.windows import WindowSettings

    Owner = tuple[str | None, str | None]

# Users and client ids that are measured; beyond that, the one that was quiet for longest starts anew.
MAX_MEASURED: Final = 10_000


class RateUsage:
    """Rates of one kind, by who shares them."""

    def __init__(self, settings: WindowSettings, *, longest_ms: int | None = None) -> None:
        """No throttle time is longer than `longest_ms`."""
        self._settings = settings
        self._longest_ms = longest_ms
        self._rates: OrderedDict[Owner, RateWindows] = OrderedDict()

    def record(self, quota: Applied, amount: float, now_ms: int) -> int:
        """Count an amount; return how long its client has to wait."""
        windows = self._of(quota.shared_by)
        windows.record(amount, now_ms)
        throttle_ms = windows.throttle_ms(quota.bound, now_ms)
        return throttle_ms if self._longest_ms is None else min(throttle_ms, self._longest_ms)

    def take_back(self, quota: Applied, amount: float, now_ms: int) -> None:
        """Forget an amount that was counted and then not sent."""
        self._of(quota.shared_by).record(-amount, now_ms)

    def most_at_once(self, quota: Applied) -> float:
        """Return the largest amount that does not exceed the quota for certain."""
        return quota.bound * (self._settings.count - 1) * self._settings.length_ms / 1000

    def _of(self, owner: Owner) -> RateWindows:
        windows = self._rates.get(owner)
        if windows is None:
            windows = self._rates[owner] = RateWindows(self._settings)
            if len(self._rates) > MAX_MEASURED:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(owner)
        return windows


class BudgetUsage:
    """Budgets of changes, by who shares them (KIP-599)."""

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._buckets: OrderedDict[Owner, TokenBucket] = OrderedDict()

    def take(self, quota: Applied, amount: float, now_ms: int) -> None:
        """Count changes."""
        self._of(quota, now_ms).take(amount, quota.bound, now_ms)

    def throttle_ms(self, quota: Applied, now_ms: int) -> int:
        """Return how long the client has to wait until it owes nothing."""
        return self._of(quota, now_ms).throttle_ms(quota.bound, now_ms)

    def _of(self, quota: Applied, now_ms: int) -> TokenBucket:
        bucket = self._buckets.get(quota.shared_by)
        if bucket is None:
            bucket = self._buckets[quota.shared_by] = TokenBucket(self._settings, quota.bound, now_ms)
            if len(self._buckets) > MAX_MEASURED:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(quota.shared_by)
        return bucket
