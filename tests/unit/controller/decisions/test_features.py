"""Decisions on feature levels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from crabka.controller.decisions.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureScope,
    FeatureUpdate,
    update_features,
)
from crabka.controller.decisions.registration import ControllerApplication, admit_controller
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BrokerFeature, ConfigRecord, FeatureLevelRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, register_broker, registration, unfence_broker
from tests.support.recorded.files import GOLDEN

IMAGE = cluster(1, features={"transaction.version": 1, "metadata.version": 29})


def test_the_supported_features_are_kafkas() -> None:
    golden = json.loads((GOLDEN / "features.json").read_text())["broker_listener"]["supported_min_max"]
    assert {name: list(levels) for name, levels in SUPPORTED_FEATURES.items()} == golden


@pytest.mark.parametrize(
    "update",
    [
        FeatureUpdate("transaction.version", 2, UPGRADE),
        FeatureUpdate("transaction.version", 0, SAFE_DOWNGRADE),
        FeatureUpdate("transaction.version", 0, UNSAFE_DOWNGRADE),
        FeatureUpdate("metadata.version", 30, UPGRADE),
    ],
)
def test_allowed_changes(update: FeatureUpdate) -> None:
    outcome = update_features(IMAGE, [update])
    assert outcome.records == [FeatureLevelRecord(name=update.name, feature_level=update.level)]


def test_the_present_level_is_no_change() -> None:
    outcome = update_features(IMAGE, [FeatureUpdate("transaction.version", 1)])
    assert outcome.records == []
    assert outcome.result["transaction.version"].error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (FeatureUpdate("nope", 1), "does not support this feature"),
        (FeatureUpdate("transaction.version", -1), "cannot be less than 0"),
        (FeatureUpdate("nope", 0), "This controller does not support this feature"),
        (FeatureUpdate("transaction.version", 9), "only supports versions 0-2"),
        (FeatureUpdate("transaction.version", 0, UPGRADE), "without setting the upgrade type"),
        (FeatureUpdate("transaction.version", 2, SAFE_DOWNGRADE), "Can't downgrade to a newer version"),
        (FeatureUpdate("transaction.version", 2, 9), "does not support the given upgrade type"),
        (FeatureUpdate("metadata.version", 28, UNSAFE_DOWNGRADE), "metadata.version"),
    ],
)
def test_refused_changes(update: FeatureUpdate, words: str) -> None:
    outcome = update_features(IMAGE, [update])
    verdict = outcome.result[update.name]
    assert outcome.records == []
    assert verdict.error_code is ErrorCode.invalid_update_version
    assert verdict.message is not None
    assert words in verdict.message


def test_the_quorum_keeps_kraft_version() -> None:
    outcome = update_features(IMAGE, [FeatureUpdate("kraft.version", 1)])
    assert (outcome.result["kraft.version"].error_code, outcome.records) == (ErrorCode.none, [])
    at_one = FeatureScope(kraft_version=1)
    assert update_features(IMAGE, [FeatureUpdate("kraft.version", 1)], at_one).result["kraft.version"].message is None
    lowered = FeatureUpdate("kraft.version", 0, SAFE_DOWNGRADE)
    message = refusal(IMAGE, lowered, at_one)
    assert message is not None
    assert "Can't downgrade the version of this feature." in message


def test_one_refusal_refuses_all() -> None:
    outcome = update_features(IMAGE, [FeatureUpdate("transaction.version", 2), FeatureUpdate("nope", 1)])
    assert outcome.records == []


def test_validation_alone_makes_no_records() -> None:
    assert update_features(IMAGE, [FeatureUpdate("transaction.version", 2)], validate_only=True).records == []


def refusal(image: MetadataImage, update: FeatureUpdate, scope: FeatureScope) -> str | None:
    return update_features(image, [update], scope).result[update.name].message


def with_features(image: MetadataImage, broker_id: int, **levels: tuple[int, int]) -> MetadataImage:
    """Register a broker that supports these features alone, given with '_' for '.'."""
    (record, *_) = register_broker(image, registration(broker_id), broker_epoch=broker_id).records
    features = tuple(
        BrokerFeature(name=name.replace("_", "."), min_supported_version=low, max_supported_version=high)
        for name, (low, high) in levels.items()
    )
    return applied(image, [replace(record, features=features)])


@pytest.mark.parametrize("fenced", [False, True])
def test_every_broker_must_support_a_level(fenced: bool) -> None:
    older = with_features(IMAGE, 2, metadata_version=(7, 29), transaction_version=(0, 2))
    if not fenced:
        older = applied(older, unfence_broker(older, 2).records)
    scope = FeatureScope(node_id=1)
    assert refusal(older, FeatureUpdate("transaction.version", 2), scope) is None
    assert refusal(older, FeatureUpdate("metadata.version", 30), scope) == (
        "Invalid update version 30 for feature metadata.version. Broker 2 only supports versions 7-29"
    )
    assert refusal(older, FeatureUpdate("group.version", 1), scope) == (
        "Invalid update version 1 for feature group.version. Broker 2 does not support this feature."
    )


def controller_record(controller_id: int) -> Any:
    said = registration(controller_id)
    application = ControllerApplication(
        controller_id=controller_id,
        incarnation_id=said.incarnation_id,
        endpoints=said.endpoints,
        features=said.features,
    )
    (record,) = admit_controller(IMAGE, application).records
    return record


def test_every_controller_must_support_a_level() -> None:
    image = applied(IMAGE, [controller_record(1)])
    own = controller_record(3)
    update = FeatureUpdate("group.version", 1)
    scope = FeatureScope(node_id=1, voters=(1, 3))
    assert refusal(image, update, scope) == (
        "Invalid update version 1 for feature group.version. "
        "controller 3 has not registered, and may not support this feature"
    )
    assert refusal(applied(image, [own]), update, scope) is None
    older = applied(image, [replace(own, features=())])
    assert refusal(older, update, scope) == (
        "Invalid update version 1 for feature group.version. Controller 3 does not support this feature."
    )
    # What this controller supports is known, whatever it once registered.
    assert refusal(older, update, FeatureScope(node_id=3)) is None


def test_before_3_7_controllers_cannot_be_asked() -> None:
    image = cluster(1, features={"metadata.version": 14})
    assert refusal(image, FeatureUpdate("group.version", 1), FeatureScope(voters=(8, 9))) is None


def test_eligible_leader_replicas_need_their_metadata_version() -> None:
    image = cluster(1, features={"metadata.version": 22})
    update = FeatureUpdate("eligible.leader.replicas.version", 1)
    outcome = update_features(image, [update])
    assert outcome.result[update.name].message == (
        "Invalid update version 1 for feature eligible.leader.replicas.version. eligible.leader.replicas.version "
        "could not be set to 1 because it depends on metadata.version level 23"
    )
    both = update_features(image, [update, FeatureUpdate("metadata.version", 23)])
    assert {verdict.error_code for verdict in both.result.values()} == {ErrorCode.none}


def test_eligible_leader_replicas_need_one_min_isr_for_all_brokers() -> None:
    image = applied(IMAGE, [ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="3")])
    update = FeatureUpdate("eligible.leader.replicas.version", 1)
    image = applied(image, update_features(image, [update], FeatureScope(min_insync_replicas=2)).records)
    assert image.configs.get(4, "") == {"min.insync.replicas": "2"}
    assert image.configs.get(4, "1") == {}
    assert image.features.level("eligible.leader.replicas.version") == 1
    assert update_features(image, [update], FeatureScope(min_insync_replicas=5)).records == []
