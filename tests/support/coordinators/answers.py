"""Answers of a scripted group coordinator."""

from __future__ import annotations

from typing import Any

from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.scripted_broker import ReceivedRequest


def coordinator(request: ReceivedRequest, node_id: int = 1, code: ErrorCode = ErrorCode.none) -> Any:
    """FindCoordinator: the broker `node_id`, or an error."""
    message = None if code is ErrorCode.none else "because"
    place = {"node_id": node_id, "host": "h", "port": 1, "error_code": code, "error_message": message}
    keys = getattr(request.body, "coordinator_keys", ())
    coordinators = [request.types.new("Coordinator", key=key, **place) for key in keys]
    return request.types.message(throttle_time=0, coordinators=coordinators, **place)
