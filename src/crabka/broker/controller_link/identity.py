"""Who this broker is to the controller: its id, and the epoch of its present registration."""

from __future__ import annotations

from dataclasses import dataclass

NOT_REGISTERED = -1


@dataclass(slots=True)
class BrokerIdentity:
    """One per node and shared by its parts; the epoch is known once the broker is registered."""

    node_id: int
    broker_epoch: int = NOT_REGISTERED
