"""ACLs, SCRAM credentials, delegation tokens and client quotas: stored here, enforced elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from crabka.metadata.draft import MappingDraft
from crabka.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    UserScramCredentialRecord,
)

# A quota entity as (type, name) pairs sorted by type; the name None stands for the default of its type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class ScramKey(NamedTuple):
    """Mechanism (1 = SCRAM-SHA-256, 2 = SCRAM-SHA-512) and user."""

    mechanism: int
    user: str


@dataclass(frozen=True, slots=True)
class AclsImage:
    """Access control entries by their id."""

    entries: Mapping[UUID, AccessControlEntryRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScramImage:
    """SCRAM credentials by mechanism and user."""

    credentials: Mapping[ScramKey, UserScramCredentialRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DelegationTokenImage:
    """Delegation tokens by their id."""

    tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientQuotasImage:
    """Quota values by entity and key."""

    entities: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)

    def to_records(self) -> Iterator[Any]:
        """Yield the records that rebuild this part."""
        for entity, quotas in self.entities.items():
            parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
            for key, value in quotas.items():
                yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)

    def count_of(self, key: str) -> int:
        """Return how many entities have a quota of this key."""
        return sum(key in quotas for quotas in self.entities.values())


class SecurityDelta:
    """Changes of all four parts on top of their images."""

    def __init__(
        self, acls: AclsImage, scram: ScramImage, tokens: DelegationTokenImage, quotas: ClientQuotasImage
    ) -> None:
        self.acls_changed: set[UUID] = set()
        self._acls = MappingDraft(acls.entries)
        self._scram = MappingDraft(scram.credentials)
        self._tokens = MappingDraft(tokens.tokens)
        self._quotas = MappingDraft(quotas.entities)

    def add_acl(self, record: Any) -> None:
        """Replay AccessControlEntryRecord."""
        self.acls_changed.add(record.id)
        self._acls.set(record.id, record)

    def remove_acl(self, record: Any) -> None:
        """Replay RemoveAccessControlEntryRecord."""
        self.acls_changed.add(record.id)
        self._acls.remove(record.id)

    def set_scram(self, record: Any) -> None:
        """Replay UserScramCredentialRecord."""
        self._scram.set(ScramKey(record.mechanism, record.name), record)

    def remove_scram(self, record: Any) -> None:
        """Replay RemoveUserScramCredentialRecord."""
        self._scram.remove(ScramKey(record.mechanism, record.name))

    def set_token(self, record: Any) -> None:
        """Replay DelegationTokenRecord."""
        self._tokens.set(record.token_id, record)

    def remove_token(self, record: Any) -> None:
        """Replay RemoveDelegationTokenRecord."""
        self._tokens.remove(record.token_id)

    def set_quota(self, record: Any) -> None:
        """Replay ClientQuotaRecord."""
        entity: QuotaEntity = tuple(
            sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0])
        )
        quotas = dict(self._quotas.get(entity) or {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self._quotas.set(entity, quotas)
        else:
            self._quotas.remove(entity)

    def acls(self) -> AclsImage:
        """Return the ACLs with the changes."""
        return AclsImage(self._acls.current)

    def scram(self) -> ScramImage:
        """Return the credentials with the changes."""
        return ScramImage(self._scram.current)

    def tokens(self) -> DelegationTokenImage:
        """Return the tokens with the changes."""
        return DelegationTokenImage(self._tokens.current)

    def quotas(self) -> ClientQuotasImage:
        """Return the quotas with the changes."""
        return ClientQuotasImage(self._quotas.current)
