"""Every bound of a connection, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one listener. A connection over an in-flight limit is not read until it is below again."""

    max_frame_bytes: int = 100 * 1024 * 1024  # socket.request.max.bytes
    max_idle_ms: int = 600_000  # connections.max.idle.ms; negative: never
    max_connections: int = 2**31 - 1  # max.connections
    max_in_flight_requests: int = 64
    max_in_flight_bytes: int = 16 * 1024 * 1024  # of requests that have no response yet; one may exceed it
    max_unsent_bytes: int = 8 * 1024 * 1024  # of responses that wait for an earlier one
    write_high_bytes: int = 1024 * 1024  # bytes in the transport that stop a connection
    write_low_bytes: int = 256 * 1024  # and that let it go on
