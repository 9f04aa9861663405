"""Rows that registrations share."""

from __future__ import annotations

from crabka.control.application_rows import endpoints_of, features_of
from crabka.metadata.cluster import Endpoint, VersionRange
from crabka.protocol.apis import ApiKey, request_types

TYPES = request_types(ApiKey.BROKER_REGISTRATION, 4)


def test_endpoints_keep_their_order() -> None:
    rows = [TYPES.new("Listener", name=name, host="h", port=9092, security_protocol=0) for name in ("B", "A")]
    assert endpoints_of(rows) == [Endpoint("B", "h", 9092, 0), Endpoint("A", "h", 9092, 0)]


def test_features_are_found_by_name() -> None:
    rows = [TYPES.new("Feature", name="kraft.version", min_supported_version=0, max_supported_version=1)]
    assert features_of(rows) == {"kraft.version": VersionRange(0, 1)}
