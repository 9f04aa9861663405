"""Which quota applies to a client: the most specific one that is set, in Kafka's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

# Clients whose quota is remembered; more are looked up each time.
_REMEMBERED_CLIENTS: Final = 10_000


class Applied(NamedTuple):
    """A quota, and who shares it: all connections of one user, of one client id, or of both together."""

    shared_by: tuple[str | None, str | None]
    bound: float


class _Level(NamedTuple):
    """One place in the order of precedence; `None` is the part that a level does not look at."""

    entity: tuple[tuple[str, str | None], ...]
    shared_by: tuple[str | None, str | None]


class QuotaTable:
    """The quotas of one key, such as `producer_byte_rate`."""

    def __init__(self, entities: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]], key: str) -> None:
        """Entities are (type, name) pairs sorted by type; the name None stands for the default of its type."""
        self._bounds = {entity: quotas[key] for entity, quotas in entities.items() if key in quotas}
        self._found: dict[tuple[str, str], Applied | None] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def find(self, user: str, client_id: str) -> Applied | None:
        """Return the quota of a client, None if nothing limits it."""
        client = (user, client_id)
        try:
            return self._found[client]
        except KeyError:
            pass
        bounds = self._bounds
        found = next(
            (Applied(level.shared_by, bounds[level.entity]) for level in _levels(*client) if level.entity in bounds),
            None,
        )
        if len(self._found) < _REMEMBERED_CLIENTS:
            self._found[client] = found
        return found

    def find_address(self, host: str) -> float | None:
        """Return the quota of an address: its own or that of all."""
        bounds = self._bounds
        bound = bounds.get(((IP, host),))
        return bounds.get(((IP, None),)) if bound is None else bound


def _levels(user: str, client_id: str) -> tuple[_Level, ...]:
    both, only_user, only_client = (user, client_id), (user, None), (None, client_id)
    return (
        _Level(((CLIENT_ID, client_id), (USER, user)), both),
        _Level(((CLIENT_ID, None), (USER, user)), both),
        _Level(((USER, user),), only_user),
        _Level(((CLIENT_ID, client_id), (USER, None)), both),
        _Level(((CLIENT_ID, None), (USER, None)), both),
        _Level(((USER, None),), only_user),
        _Level(((CLIENT_ID, client_id),), only_client),
        _Level(((CLIENT_ID, None),), only_client),
    )
