from __future__ import annotations

from uuid import UUID

from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import EMPTY_IMAGE
from crabka.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from crabka.metadata.security import ScramKey

ACL = AccessControlEntryRecord(
    id=UUID(int=8),
    resource_type=2,
    resource_name="t",
    pattern_type=3,
    principal="User:a",
    host="*",
    operation=3,
    permission_type=3,
)
SCRAM = UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
TOKEN = DelegationTokenRecord(
    owner="User:a", requester="User:a", issue_timestamp=1, max_timestamp=3, expiration_timestamp=2, token_id="t1"
)


def _quota(value: float, *, remove: bool = False, key: str = "rate") -> ClientQuotaRecord:
    entity = (EntityData(entity_type="user", entity_name=None), EntityData(entity_type="client-id", entity_name="c"))
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def test_everything_is_kept_as_it_was_written() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in (ACL, SCRAM, TOKEN):
        delta.replay(record)
    image = delta.apply(3, 1)
    assert image.acls.entries == {ACL.id: ACL}
    assert image.scram.credentials == {ScramKey(1, "a"): SCRAM}
    assert image.delegation_tokens.tokens == {"t1": TOKEN}
    assert image.to_records() == [ACL, SCRAM, TOKEN]


def test_removals() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in (ACL, SCRAM, TOKEN):
        delta.replay(record)
    delta.replay(RemoveAccessControlEntryRecord(id=ACL.id))
    delta.replay(RemoveUserScramCredentialRecord(name="a", mechanism=1))
    delta.replay(RemoveDelegationTokenRecord(token_id="t1"))
    assert delta.apply(6, 1).to_records() == []


def test_a_quota_entity_is_the_same_in_any_order_of_its_parts() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(_quota(1.0))
    reverse = ClientQuotaRecord(entity=tuple(reversed(_quota(0).entity)), key="other", value=2.0, remove=False)
    delta.replay(reverse)
    entities = delta.apply(2, 1).client_quotas.entities
    assert entities == {(("client-id", "c"), ("user", None)): {"rate": 1.0, "other": 2.0}}


def test_an_entity_without_quotas_is_gone() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(_quota(1.0))
    delta.replay(_quota(0.0, remove=True))
    assert delta.apply(2, 1).client_quotas.entities == {}
