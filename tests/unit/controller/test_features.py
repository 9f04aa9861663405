"""Decisions on feature levels."""

from __future__ import annotations

import json

import pytest

from crabka.controller.features import (
    SAFE_DOWNGRADE,
    SUPPORTED_FEATURES,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    update_features,
)
from crabka.metadata.records import FeatureLevelRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.golden import GOLDEN
from tests.support.images import cluster

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
        (FeatureUpdate("transaction.version", 9), "only supports versions 0-2"),
        (FeatureUpdate("transaction.version", 0, UPGRADE), "without setting the upgrade type"),
        (FeatureUpdate("transaction.version", 2, SAFE_DOWNGRADE), "Can't downgrade to a newer version"),
        (FeatureUpdate("transaction.version", 2, 9), "does not support the given upgrade type"),
        (FeatureUpdate("metadata.version", 28, UNSAFE_DOWNGRADE), "metadata.version"),
        (FeatureUpdate("kraft.version", 1), "kraft.version"),
    ],
)
def test_refused_changes(update: FeatureUpdate, words: str) -> None:
    outcome = update_features(IMAGE, [update])
    verdict = outcome.result[update.name]
    assert outcome.records == []
    assert verdict.error_code is ErrorCode.invalid_update_version
    assert verdict.message is not None
    assert words in verdict.message


def test_one_refusal_refuses_all() -> None:
    outcome = update_features(IMAGE, [FeatureUpdate("transaction.version", 2), FeatureUpdate("nope", 1)])
    assert outcome.records == []


def test_validation_alone_makes_no_records() -> None:
    assert update_features(IMAGE, [FeatureUpdate("transaction.version", 2)], validate_only=True).records == []
