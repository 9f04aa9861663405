from __future__ import annotations

import json

import pytest

from crabka.metadata.features import (
    DEFAULT_FEATURE_LEVELS,
    METADATA_VERSION_NAMES,
    SUPPORTED_FEATURES,
    FeaturesDelta,
    FeaturesImage,
)
from crabka.metadata.records import FeatureLevelRecord, MetadataVersionError
from tests.support.recorded.files import GOLDEN


def _image(**levels: int) -> FeaturesImage:
    delta = FeaturesDelta(FeaturesImage())
    for name, level in levels.items():
        delta.set_level(FeatureLevelRecord(name=name.replace("_", "."), feature_level=level))
    return delta.apply()


def test_levels_are_set_and_zero_removes() -> None:
    image = _image(group_version=1, metadata_version=30)
    assert (image.level("group.version"), image.level("share.version"), image.metadata_version) == (1, 0, 30)
    delta = FeaturesDelta(image)
    delta.set_level(FeatureLevelRecord(name="group.version", feature_level=0))
    assert delta.changed
    assert "group.version" not in delta.apply().levels


def test_metadata_version_leads_the_records() -> None:
    names = [record.name for record in _image(group_version=1, metadata_version=30).to_records()]
    assert names == ["metadata.version", "group.version"]


@pytest.mark.parametrize(("name", "level"), [("metadata.version", 31), ("metadata.version", 6), ("group.version", 2)])
def test_levels_we_cannot_read_are_refused(name: str, level: int) -> None:
    with pytest.raises(MetadataVersionError):
        FeaturesDelta(FeaturesImage()).set_level(FeatureLevelRecord(name=name, feature_level=level))


def test_a_new_cluster_has_share_and_streams_off() -> None:
    assert dict(DEFAULT_FEATURE_LEVELS) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_supported_ranges_are_those_of_kafka() -> None:
    golden = json.loads((GOLDEN / "features.json").read_text())["broker_listener"]["supported_min_max"]
    assert {name: list(levels) for name, levels in SUPPORTED_FEATURES.items()} == golden


def test_levels_have_their_release_names() -> None:
    assert METADATA_VERSION_NAMES[7] == "3.3-IV3"
    assert METADATA_VERSION_NAMES[21] == "3.9-IV0"
    assert METADATA_VERSION_NAMES[30] == "4.3-IV0"
