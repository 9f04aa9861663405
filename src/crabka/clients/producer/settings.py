"""The settings of a producer, and their valid combinations."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.errors import ConfigError

MAX_IDEMPOTENT_IN_FLIGHT = 5
"""Brokers remember the last five batches of a producer, so more in flight could not be recognised as repeats."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How records are batched and delivered."""

    acks: int = -1
    idempotent: bool = True
    codec: int = 0
    level: int | None = None
    linger_ms: int = 5
    batch_bytes: int = 16 * 1024
    max_request_bytes: int = 1024 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    max_in_flight: int = MAX_IDEMPOTENT_IN_FLIGHT
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    max_block_ms: int = 60_000
    """How long a send waits for an unknown topic, and a transactional call for a coordinator."""

    def __post_init__(self) -> None:
        if self.transactional_id is not None and not (self.transactional_id and self.idempotent):
            raise ConfigError("a transactional producer needs a transactional_id that is not empty and idempotence")
        if self.idempotent and (self.acks != -1 or self.max_in_flight > MAX_IDEMPOTENT_IN_FLIGHT):
            raise ConfigError(f"an idempotent producer needs acks=-1 and max_in_flight <= {MAX_IDEMPOTENT_IN_FLIGHT}")
