from __future__ import annotations

from crabka.protocol.api_keys import SPECS, ApiKey
from crabka.protocol.schemas import message_class, package_name, versions_newest_first


def test_newest_and_oldest_version_of_every_api_have_schemas() -> None:
    for key, spec in SPECS.items():
        for version in (spec.min_version, spec.max_version):
            request = message_class(key, version, "request")
            response = message_class(key, version, "response")
            assert (request.__version__, response.__version__) == (version, version)
            assert request.__api_key__ == response.__api_key__ == key
            assert request.__flexible__ == spec.is_flexible(version), spec


def test_package_names_are_snake_case() -> None:
    assert package_name(ApiKey.LIST_OFFSETS) == "list_offsets"
    assert package_name(ApiKey.PRODUCE) == "produce"


def test_versions_come_newest_first() -> None:
    assert list(versions_newest_first(ApiKey.LIST_OFFSETS)) == list(range(11, 0, -1))
