"""Client quotas: checked and stored (KIP-546). `serving.quotas` enforces them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.metadata.records import ClientQuotaRecord, EntityData
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.metadata.image import MetadataImage

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_USER_AND_CLIENT_KEYS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_KEYS = frozenset({"connection_creation_rate"})

# Entity type and name; a name of None is the default entity of its type.
QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """The changes for one entity: key to new value, or None to remove it."""

    entity: QuotaEntity
    values: dict[str, float | None]


def alter_quotas(
    _image: MetadataImage, changes: Sequence[QuotaChange], *, validate_only: bool = False
) -> Outcome[list[ItemVerdict]]:
    """Decide on quota changes, entity by entity."""
    records: list[Any] = []
    verdicts: list[ItemVerdict] = []
    for change in changes:
        try:
            _check(change)
        except OperationError as error:
            verdicts.append(ItemVerdict.of(error))
            continue
        verdicts.append(ACCEPTED)
        entity = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in change.entity)
        records += [
            ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None)
            for key, value in change.values.items()
        ]
    return Outcome(verdicts, [] if validate_only else records)


def _check(change: QuotaChange) -> None:
    kinds = [kind for kind, _ in change.entity]
    if not kinds:
        raise OperationError(ErrorCode.invalid_request, "Invalid empty client quota entity.")
    if len(set(kinds)) != len(kinds):
        raise OperationError(ErrorCode.invalid_request, "Invalid client quota entity: a type is given twice.")
    for kind in kinds:
        if kind not in (USER, CLIENT_ID, IP):
            raise OperationError(ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}")
    if IP in kinds and len(kinds) > 1:
        raise OperationError(
            ErrorCode.invalid_request, "Invalid quota entity combination, IP entity should not be combined with others."
        )
    allowed = _IP_KEYS if IP in kinds else _USER_AND_CLIENT_KEYS
    for key, value in change.values.items():
        if key not in allowed:
            raise OperationError(ErrorCode.invalid_request, f"Invalid configuration key {key}")
        if value is not None and value <= 0:
            raise OperationError(ErrorCode.invalid_request, f"Quota {key} must be greater than 0")
