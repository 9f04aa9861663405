"""Rows that registrations of brokers and controllers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.metadata.cluster import Endpoint, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable


def endpoints_of(listeners: Iterable[Any]) -> list[Endpoint]:
    """Return the endpoints that an applicant listens on."""
    return [Endpoint(each.name, each.host, each.port, each.security_protocol) for each in listeners]


def features_of(features: Iterable[Any]) -> dict[str, VersionRange]:
    """Return the levels that an applicant supports, by feature."""
    return {each.name: VersionRange(each.min_supported_version, each.max_supported_version) for each in features}
