"""UpdateFeatures over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, row, versions_of


def update(node: SimNode, *levels: tuple[str, int, int], version: int = 2, validate_only: bool = False) -> Any:
    rows = [
        row("FeatureUpdateKey", feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind > 1)
        for name, level, kind in levels
    ]
    return node.ask(ApiKey.UPDATE_FEATURES, version, timeout=1000, feature_updates=rows, validate_only=validate_only)


@pytest.mark.parametrize("version", versions_of(ApiKey.UPDATE_FEATURES))
def test_every_version_changes_a_level(node: SimNode, version: int) -> None:
    answer = update(node, ("transaction.version", 1, 2), version=version)
    assert answer.error_code is ErrorCode.none
    assert node.context.image.features.levels["transaction.version"] == 1
    if version < 2:
        assert [(each.feature, each.error_code) for each in answer.results] == [("transaction.version", ErrorCode.none)]


def test_validation_alone_changes_nothing(node: SimNode) -> None:
    assert update(node, ("transaction.version", 1, 2), validate_only=True).error_code is ErrorCode.none
    assert node.context.image.features.levels["transaction.version"] == 2


def test_one_bad_change_refuses_all(node: SimNode) -> None:
    answer = update(node, ("transaction.version", 1, 2), ("group.version", 9, 1))
    assert answer.error_code is ErrorCode.invalid_update_version
    assert answer.error_message.startswith("The update failed for all features since the following feature had")
    assert node.context.image.features.levels["transaction.version"] == 2


def test_old_versions_tell_the_error_per_feature(node: SimNode) -> None:
    answer = update(node, ("group.version", 9, 1), version=1)
    assert [each.error_code for each in answer.results] == [ErrorCode.invalid_update_version]
