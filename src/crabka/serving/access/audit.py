"""The audit log: one line of JSON for each decision, on the logger `crabka.audit`.

A denial is INFO and a permission DEBUG, as on Kafka's `kafka.authorizer.logger`. Questions whose answer grants or
refuses nothing by itself, as for the list of authorized operations, are not logged.
"""

from __future__ import annotations

import functools
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from crabka.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import Clock
    from crabka.security.acls import Operation, ResourceType
    from crabka.security.authorizer import Requester, Verdict
    from crabka.serving.request import Request

LOGGER_NAME: Final = "crabka.audit"
logger = logging.getLogger(LOGGER_NAME)


class AuditLog:
    """Writes decisions; the reason of one is only looked for if its line is written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Bound once: asked at every request that is allowed.
        self._is_enabled = logger.isEnabledFor
        self.logs_allowed = functools.partial(logger.isEnabledFor, logging.DEBUG)
        """Return whether permissions are logged."""

    def note(
        self,
        request: Request,
        requester: Requester,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        explain: Callable[[], Verdict],
    ) -> None:
        """Write the line of one decision."""
        if not self._is_enabled(logging.INFO):
            return
        verdict = explain()
        line = {
            "time": datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds"),
            "principal": str(requester.principal),
            "host": requester.host,
            "listener": request.connection.listener,
            "api": ApiKey(request.api_key).name,
            "operation": operation.name,
            "resource": f"{resource_type.name}:{name}",
            "verdict": "allowed" if verdict.allowed else "denied",
            "reason": str(verdict),
        }
        logger.log(logging.DEBUG if verdict.allowed else logging.INFO, "%s", json.dumps(line, ensure_ascii=False))
