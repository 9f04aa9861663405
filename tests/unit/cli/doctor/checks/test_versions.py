"""Findings about versions."""

from __future__ import annotations

from crabka.cli.doctor.checks.versions import BrokerVersions, VersionFacts, find_versions
from crabka.clients.admin.admin_types import FeatureRange
from crabka.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from tests.support.doctor.findings import line, only, texts

LATEST = FeatureRange(7, LATEST_METADATA_VERSION, LATEST_METADATA_VERSION)


def broker(
    node_id: int, *, apis: dict[int, tuple[int, int]] | None = None, metadata: FeatureRange = LATEST
) -> BrokerVersions:
    return BrokerVersions(node_id, apis or {0: (3, 13), 1: (4, 17)}, {METADATA_VERSION: metadata})


def facts(*brokers: BrokerVersions) -> VersionFacts:
    return VersionFacts(brokers, "h:1", is_crabka=True)


def test_equal_brokers_at_the_latest_level_are_fine() -> None:
    outcome = find_versions(facts(broker(1), broker(2))._replace(unreachable=[3]))
    assert texts(outcome) == [("ok", "all brokers offer the same APIs; metadata.version is 4.3-IV0")]
    assert outcome.unknown == ["broker 3 cannot be reached"]


def test_brokers_of_another_version_are_a_warning() -> None:
    other = broker(3, apis={0: (3, 12), 1: (4, 17), 9_999: (0, 0)})
    found = only(find_versions(facts(broker(1), broker(2), other)))
    assert found.reason == (
        "Brokers run different software: 2 APIs of broker 3 have other versions than those of the 2 others (PRODUCE, "
        "9999)."
    )
    assert (found.severity.value, line(found)) == ("warning", "crabka serve --config server.properties")


def test_a_broker_that_does_not_know_the_level_is_an_error() -> None:
    found = only(find_versions(facts(broker(1), broker(2, metadata=FeatureRange(7, 25, 30)))))
    assert found.reason == (
        "Broker 2 supports metadata.version 7 to 25, but the cluster is at 30: it cannot follow the metadata."
    )
    assert found.severity.value == "error"


def test_a_feature_that_is_off_is_no_error() -> None:
    features = {
        METADATA_VERSION: LATEST,
        "group.version": FeatureRange(1, 1, 0),
        "share.version": FeatureRange(0, 1, -1),
    }
    assert only(find_versions(facts(broker(1)._replace(features=features)))).severity.value == "ok"


def test_a_level_that_can_be_raised_is_a_hint() -> None:
    found = only(find_versions(facts(broker(1, metadata=FeatureRange(7, 30, 22)))))
    assert found.reason == "metadata.version is 4.0-IV0, all brokers support 4.3-IV0."
    assert line(found) == "kafka-features.sh --bootstrap-server h:1 upgrade --feature metadata.version=30"
    # Not while one broker does not support it.
    mixed = facts(broker(1, metadata=FeatureRange(7, 30, 22)), broker(2, metadata=FeatureRange(7, 22, 22)))
    assert only(find_versions(mixed)).severity.value == "ok"


def test_brokers_without_features_say_nothing_of_them() -> None:
    old = broker(1)._replace(features={})
    assert only(find_versions(facts(old))).reason == "all brokers offer the same APIs; metadata.version is unknown"
