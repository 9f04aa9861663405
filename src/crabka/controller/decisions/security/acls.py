"""Which ACLs may be created, and which ones a filter removes (Kafka's AclApis and AclControlManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.errors import OperationError
from crabka.metadata.records import RemoveAccessControlEntryRecord
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acl_records import acl_of, record_of
from crabka.security.acls import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from crabka.metadata.image import MetadataImage

# Records of one request, as in Kafka's QuorumController.
MAX_RECORDS: Final = 10_000


class Deletion(NamedTuple):
    """What one filter removed."""

    verdict: ItemVerdict
    acls: Sequence[Acl] = ()


def create_acls(image: MetadataImage, wanted: Sequence[Acl], new_id: Callable[[], UUID]) -> Outcome[list[ItemVerdict]]:
    """Add the ACLs that are valid and not there yet."""
    existing = {acl_of(record) for record in image.acls.entries.values()}
    records: list[Any] = []
    verdicts = []
    for acl in wanted:
        try:
            _check(acl)
        except OperationError as error:
            verdicts.append(ItemVerdict.of(error))
            continue
        verdicts.append(ACCEPTED)
        if acl not in existing:
            existing.add(acl)
            records.append(record_of(_unused(image, new_id), acl))
    if len(records) > MAX_RECORDS:
        too_many = ItemVerdict(ErrorCode.policy_violation, "Unable to perform excessively large batch operation.")
        return Outcome([each if each is not ACCEPTED else too_many for each in verdicts], [])
    return Outcome(verdicts, records)


def delete_acls(image: MetadataImage, filters: Sequence[AclFilter]) -> Outcome[list[Deletion]]:
    """Remove what the filters select; an ACL that two of them select is in the answers of both."""
    acls = {acl_id: acl_of(record) for acl_id, record in image.acls.entries.items()}
    removed: dict[UUID, None] = {}
    deletions = []
    for each in filters:
        try:
            _check_filter(each)
        except OperationError as error:
            deletions.append(Deletion(ItemVerdict.of(error)))
            continue
        selected = {acl_id: acl for acl_id, acl in acls.items() if each.matches(acl)}
        removed.update(dict.fromkeys(selected))
        deletions.append(Deletion(ACCEPTED, list(selected.values())))
    if len(removed) > MAX_RECORDS:
        raise OperationError(
            ErrorCode.invalid_request, f"Cannot remove more than {MAX_RECORDS} acls in a single delete operation."
        )
    return Outcome(deletions, [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed])


def _unused(image: MetadataImage, new_id: Callable[[], UUID]) -> UUID:
    acl_id = new_id()
    while acl_id in image.acls.entries:
        acl_id = new_id()
    return acl_id


def _check(acl: Acl) -> None:
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


def _check_filter(wanted: AclFilter) -> None:
    if wanted.resource_type is ResourceType.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if wanted.operation is Operation.UNKNOWN or wanted.permission is Permission.UNKNOWN:
        raise _invalid("Unknown entryFilter.")


def _invalid(message: str) -> OperationError:
    return OperationError(ErrorCode.invalid_request, message)
