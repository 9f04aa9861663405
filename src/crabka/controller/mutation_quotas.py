"""Quotas on changes of topics (KIP-599): how many partitions a client may create and delete per second.

New versions of the requests are strict: a change above the quota is refused, and the answer names the time to wait.
Older clients do not know that error: theirs goes through and is counted, and they wait afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.security.quotas.table import CONTROLLER_MUTATION_RATE, QuotaTable
from crabka.security.quotas.usage import BudgetUsage
from crabka.serving.request import OWN_CONNECTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.metadata.security import QuotaEntity
    from crabka.ports import Clock
    from crabka.security.quotas.table import Applied
    from crabka.security.quotas.windows import WindowSettings
    from crabka.serving.request import Request


class MutationQuotas:
    """The quotas and budgets of all clients at one controller. They start anew with another active controller."""

    def __init__(self, clock: Clock, windows: WindowSettings) -> None:
        self._clock = clock
        self._usage = BudgetUsage(windows)
        self._table = QuotaTable({}, CONTROLLER_MUTATION_RATE)
        self._entities: Mapping[QuotaEntity, Mapping[str, float]] = {}

    def take(self, entities: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use these quotas from now on."""
        if entities is not self._entities:
            self._entities = entities
            self._table = QuotaTable(entities, CONTROLLER_MUTATION_RATE)

    def budget(self, request: Request, *, strict_from: int) -> MutationBudget:
        """Return what the client of a request may change; versions from `strict_from` on are refused above it.

        What the node's own broker asks for is not limited.
        """
        connection = request.connection
        quota = None
        if connection is not OWN_CONNECTION:
            quota = self._table.find(connection.principal.name, request.client_id or "")
        return MutationBudget(self._usage, quota, self._clock, is_strict=request.version >= strict_from)


class MutationBudget:
    """The budget of one request."""

    def __init__(self, usage: BudgetUsage, quota: Applied | None, clock: Clock, *, is_strict: bool) -> None:
        self._usage = usage
        self._quota = quota
        self._clock = clock
        self._is_strict = is_strict
        # How long the client has to wait after the answer.
        self.throttle_ms = 0

    def charge(self, partition_count: int) -> None:
        """Count partitions. Raises OperationError if a strict budget is used up: nothing is counted then."""
        quota = self._quota
        if quota is None:
            return
        now_ms = self._clock.monotonic_ms()
        if self._is_strict:
            self.throttle_ms = max(self.throttle_ms, self._usage.throttle_ms(quota, now_ms))
            if self.throttle_ms > 0:
                code = ErrorCode.throttling_quota_exceeded
                raise OperationError(code, error_message(code))
        self._usage.take(quota, partition_count, now_ms)
        if not self._is_strict:
            self.throttle_ms = self._usage.throttle_ms(quota, now_ms)
