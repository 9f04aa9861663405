"""Administration of client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from crabka.clients.admin.requests import AdminRequests, check
from crabka.protocol.apis import ApiKey, MessageTypes

# Type of entity (user, client-id, ip) to its name; None is the default of the type.
Entity = Mapping[str, str | None]


class EntityQuotas(NamedTuple):
    """The quotas of an entity, by their keys."""

    entity: dict[str, str | None]
    values: dict[str, float]


class _Match(IntEnum):
    EXACT = 0
    DEFAULT = 1


class QuotaAdmin:
    """Calls about client quotas. All raise OperationError: cluster_authorization_failed, invalid_request."""

    def __init__(self, requests: AdminRequests) -> None:
        self._ask = requests.ask

    async def describe(self, entity: Entity, *, strict: bool = False) -> list[EntityQuotas]:
        """Return the quotas of all entities that contain the given one; strict: of it alone."""

        def build(types: MessageTypes) -> Any:
            components = [
                types.new(
                    "ComponentData",
                    entity_type=kind,
                    match_type=int(_Match.DEFAULT if name is None else _Match.EXACT),
                    match=name,
                )
                for kind, name in entity.items()
            ]
            return types.message(components=components, strict=strict)

        response = await self._ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, build)
        check(response, "quotas")
        return [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {each.key: each.value for each in entry.values},
            )
            for entry in response.entries or ()
        ]

    async def alter(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, or remove those whose value is None; all of them or none."""

        def build(types: MessageTypes) -> Any:
            parts = [types.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()]
            operations = [
                types.new("OpData", key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in changes.items()
            ]
            entry = types.new("EntryData", entity=parts, ops=operations)
            return types.message(entries=[entry], validate_only=False)

        response = await self._ask(ApiKey.ALTER_CLIENT_QUOTAS, build)
        for entry in response.entries:
            check(entry, "quotas")
