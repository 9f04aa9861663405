"""Changes of SCRAM credentials: codes and texts are those of Apache Kafka's ScramControlManager."""

from __future__ import annotations

from crabka.controller.decisions.scram import ScramDeletion, alter_scram_credentials
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import EMPTY_IMAGE, MetadataImage
from crabka.metadata.records import FeatureLevelRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from crabka.metadata.requests import ItemVerdict, Outcome
from crabka.metadata.security import ScramKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.scram_credentials import SaltedCredential
from crabka.security.sasl.scram_keys import SCRAM_SHA_256, derive_keys

SALT, SALTED = b"salt", b"salted password"


def deletion(user: str, mechanism: int = 1) -> ScramDeletion:
    return ScramDeletion(ScramKey(mechanism, user))


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> SaltedCredential:
    return SaltedCredential(ScramKey(mechanism, user), iterations, SALT, SALTED)


def image_with(*users: str, metadata_version: int | None = None) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    if metadata_version is not None:
        delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=metadata_version))
    for user in users:
        delta.replay(
            UserScramCredentialRecord(name=user, mechanism=1, salt=b"", stored_key=b"", server_key=b"", iterations=4096)
        )
    return delta.apply(1, 1)


def refusals(outcome: Outcome[dict[str, ItemVerdict]]) -> dict[str, tuple[ErrorCode, str | None]]:
    return {user: (each.error_code, each.message) for user, each in outcome.result.items()}


def test_keys_are_stored_and_the_password_is_not() -> None:
    outcome = alter_scram_credentials(EMPTY_IMAGE, [], [upsertion("alice")])
    assert outcome.result["alice"].error_code is ErrorCode.none
    (record,) = outcome.records
    keys = derive_keys(SCRAM_SHA_256, SALTED)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 1, SALT, 4096)
    assert (record.stored_key, record.server_key) == (SCRAM_SHA_256.hash(keys.client_key), keys.server_key)


def test_deletion_of_what_exists() -> None:
    outcome = alter_scram_credentials(image_with("alice"), [deletion("alice")], [upsertion("bob", 2)])
    assert [(type(record), record.name) for record in outcome.records] == [
        (RemoveUserScramCredentialRecord, "alice"),
        (UserScramCredentialRecord, "bob"),
    ]


def test_each_change_is_checked_alone() -> None:
    outcome = alter_scram_credentials(
        image_with("alice"),
        [deletion("alice", 2), deletion("", 1), deletion("carol", 3)],
        [upsertion("dave", 0), upsertion("few", 1, 4095), upsertion("many", 1, 16_385), upsertion("good")],
    )
    assert refusals(outcome) == {
        "alice": (ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"),
        "": (ErrorCode.unacceptable_credential, "Username must not be empty"),
        "carol": (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        "dave": (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        "few": (ErrorCode.unacceptable_credential, "Too few iterations"),
        "many": (ErrorCode.unacceptable_credential, "Too many iterations"),
        "good": (ErrorCode.none, None),
    }
    assert [record.name for record in outcome.records] == ["good"]


def test_a_user_may_occur_once() -> None:
    twice = (ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
    outcome = alter_scram_credentials(image_with("alice"), [deletion("alice")], [upsertion("alice", 2)])
    assert (refusals(outcome), outcome.records) == ({"alice": twice}, [])
    outcome = alter_scram_credentials(EMPTY_IMAGE, [], [upsertion("bob"), upsertion("bob", 2), upsertion("bob")])
    assert (refusals(outcome), outcome.records) == ({"bob": twice}, [])


def test_old_metadata_has_no_credentials() -> None:
    outcome = alter_scram_credentials(image_with(metadata_version=10), [], [upsertion("alice")])
    assert refusals(outcome) == {
        "alice": (ErrorCode.unsupported_version, "The current metadata.version does not support SCRAM")
    }
