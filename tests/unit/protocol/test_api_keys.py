from __future__ import annotations

import json
from typing import Any

from crabka.protocol.api_keys import SPECS, ApiKey
from tests.support.recorded.files import GOLDEN

RECORDED: dict[str, Any] = json.loads((GOLDEN / "api_versions.json").read_text())


def test_specs_are_those_of_kafka() -> None:
    expected = {
        int(key): (
            row["enum"],
            row["name"],
            row["oldest"],
            row["latest_stable"],
            row["first_flexible"],
            "BROKER" in row["listeners"],
            "CONTROLLER" in row["listeners"],
        )
        for key, row in RECORDED["client_library_table"].items()
        if row["latest_stable"] >= 0
    }
    assert {key: (spec.key.name, *spec[1:]) for key, spec in SPECS.items()} == expected
    assert {int(key) for key in ApiKey} == set(SPECS)


def test_listeners_advertise_what_the_specs_say() -> None:
    for listener, flag in (("broker", "on_broker"), ("controller", "on_controller")):
        for key, row in RECORDED[listener]["api_keys"].items():
            spec = SPECS[int(key)]
            assert getattr(spec, flag), spec
            assert row["max"] == spec.max_version
            # Kafka advertises Produce from 0, for the sake of old librdkafka, and serves it from 3.
            assert row["min"] == (0 if spec.key == ApiKey.PRODUCE else spec.min_version)


def test_versions_outside_the_range_are_not_supported() -> None:
    spec = SPECS[ApiKey.FETCH]
    assert [version for version in range(-1, 30) if spec.supports(version)] == list(range(4, 19))


def test_flexible_versions_have_tagged_headers_except_in_api_versions_responses() -> None:
    fetch, api_versions, handshake = SPECS[ApiKey.FETCH], SPECS[ApiKey.API_VERSIONS], SPECS[ApiKey.SASL_HANDSHAKE]
    assert [fetch.request_header_version(version) for version in (11, 12)] == [1, 2]
    assert [fetch.response_header_flexible(version) for version in (11, 12)] == [False, True]
    assert [api_versions.request_header_version(version) for version in (2, 3)] == [1, 2]
    assert not any(api_versions.response_header_flexible(version) for version in range(5))
    assert not any(handshake.is_flexible(version) for version in range(2))
