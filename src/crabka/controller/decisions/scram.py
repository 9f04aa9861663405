"""Credentials of SCRAM users: checked as by Kafka's ScramControlManager, stored as keys without a way in (KIP-554).

The client sends the salted password. Only what follows from it is stored: it permits no log-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.metadata.security import ScramKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_credentials import SCRAM_METADATA_VERSION, SaltedCredential, scram_record
from crabka.security.sasl.scram_keys import MAX_STORED_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """The credential to remove."""

    key: ScramKey


ScramChange = ScramDeletion | SaltedCredential


def alter_scram_credentials(
    image: MetadataImage, deletions: Sequence[ScramDeletion], upsertions: Sequence[SaltedCredential]
) -> Outcome[dict[str, ItemVerdict]]:
    """Decide on changes; each user may occur once. The verdicts are by user."""
    verdicts: dict[str, ItemVerdict] = {}
    accepted: dict[str, ScramChange] = {}
    changes: list[ScramChange] = [*deletions, *upsertions]
    for change in changes:
        user = change.key.user
        if user in verdicts and user not in accepted:
            continue
        try:
            if accepted.pop(user, None) is not None:
                raise OperationError(
                    ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
                )
            _check(image, change)
        except OperationError as error:
            verdicts[user] = ItemVerdict.of(error)
            continue
        accepted[user] = change
        verdicts[user] = ACCEPTED
    return Outcome(verdicts, [_record(change) for change in accepted.values()])


def _check(image: MetadataImage, change: ScramChange) -> None:
    if image.features.metadata_version < SCRAM_METADATA_VERSION:
        raise OperationError(ErrorCode.unsupported_version, "The current metadata.version does not support SCRAM")
    if not change.key.user:
        raise OperationError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if change.key.mechanism not in SCRAM_MECHANISMS:
        raise OperationError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if change.key not in image.scram.credentials:
            raise OperationError(
                ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
            )
    elif change.iterations < MIN_ITERATIONS:
        raise OperationError(ErrorCode.unacceptable_credential, "Too few iterations")
    elif change.iterations > MAX_STORED_ITERATIONS:
        raise OperationError(ErrorCode.unacceptable_credential, "Too many iterations")


def _record(change: ScramChange) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.key.user, mechanism=change.key.mechanism)
    return scram_record(change)
