"""Versions: brokers of different software, and feature levels of the cluster against what its brokers support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import (
    Finding,
    Outcome,
    cannot_reach,
    error,
    fine,
    hint,
    shell,
    some,
    start_node,
    warning,
)
from crabka.clients.admin.admin_types import FeatureRange
from crabka.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES
from crabka.protocol.apis import ApiKey

_OFF: Final = 0


class BrokerVersions(NamedTuple):
    """The APIs and features of a broker."""

    broker: int
    # Key of an API -> lowest and highest version.
    apis: Mapping[int, tuple[int, int]]
    features: Mapping[str, FeatureRange]


class VersionFacts(NamedTuple):
    """The brokers that answered."""

    brokers: Sequence[BrokerVersions]
    bootstrap: str
    is_crabka: bool
    unreachable: Sequence[int] = ()


def find_versions(facts: VersionFacts) -> Outcome:
    """Return versions that do not fit together, and levels that can be raised."""
    findings = [*_mixed(facts), *_unsupported(facts)]
    if not findings:
        findings += _upgrade(facts)
    if not findings and facts.brokers:
        findings.append(fine(f"all brokers offer the same APIs; metadata.version is {_level(facts.brokers[0])}"))
    return Outcome(findings, cannot_reach(facts.unreachable))


def _mixed(facts: VersionFacts) -> Iterator[Finding]:
    kinds = [frozenset(each.apis.items()) for each in facts.brokers]
    usual = Counter(kinds).most_common(1)[0][0] if kinds else frozenset()
    others = [each for each, kind in zip(facts.brokers, kinds, strict=True) if kind != usual]
    if others:
        differing = sorted({key for each in others for key, _ in frozenset(each.apis.items()) ^ usual})
        ids = ", ".join(str(each.broker) for each in others)
        yield warning(
            f"Brokers run different software: {len(differing)} APIs of broker {ids} have other versions than those "
            f"of the {len(kinds) - len(others)} others ({some(_api_name(key) for key in differing)}).",
            start_node(is_crabka=facts.is_crabka),
            [each.broker for each in others],
        )


def _unsupported(facts: VersionFacts) -> Iterator[Finding]:
    for each in facts.brokers:
        for name, feature in sorted(each.features.items()):
            if feature.finalized > feature.max_supported or _OFF < feature.finalized < feature.min_supported:
                yield error(
                    f"Broker {each.broker} supports {name} {feature.min_supported} to {feature.max_supported}, but the "
                    f"cluster is at {feature.finalized}: it cannot follow the metadata.",
                    start_node(is_crabka=facts.is_crabka),
                    [each.broker],
                )


def _upgrade(facts: VersionFacts) -> Iterator[Finding]:
    ranges = [each.features[METADATA_VERSION] for each in facts.brokers if METADATA_VERSION in each.features]
    if not ranges:
        return
    highest, finalized = min(each.max_supported for each in ranges), max(each.finalized for each in ranges)
    if _OFF < finalized < highest:
        target = ("--feature", f"{METADATA_VERSION}={highest}")
        yield hint(
            f"metadata.version is {_name(finalized)}, all brokers support {_name(highest)}.",
            shell("kafka-features.sh", "--bootstrap-server", facts.bootstrap, "upgrade", *target),
        )


def _level(broker: BrokerVersions) -> str:
    feature = broker.features.get(METADATA_VERSION)
    return "unknown" if feature is None or feature.finalized <= _OFF else _name(feature.finalized)


def _name(level: int) -> str:
    return METADATA_VERSION_NAMES.get(level, str(level))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return str(key)
