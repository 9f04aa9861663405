"""UpdateFeatures over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.kraft.messages import LeaderHint, UpgradeRequest, UpgradeResponse
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.quorum import RaftQuorum
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import SimNode, row, versions_of
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


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


def test_old_versions_report_the_error_per_feature(node: SimNode) -> None:
    answer = update(node, ("group.version", 9, 1), version=1)
    assert [each.error_code for each in answer.results] == [ErrorCode.invalid_update_version]


@run_with(run_controllers)
async def test_kraft_version_is_the_quorums_business(cluster: SimControllers, /) -> None:
    controller = await cluster.active()
    await cluster.wait(lambda: bool(controller.context.image.cluster.controllers))
    assert controller.quorum.kraft_version == 1

    async def set_level(level: int, kind: int) -> Any:
        key = row("FeatureUpdateKey", feature="kraft.version", max_version_level=level, upgrade_type=kind)
        fields = {"timeout": 1000, "feature_updates": [key], "validate_only": False}
        return await controller.ask(ApiKey.UPDATE_FEATURES, 2, **fields)

    assert (await set_level(1, 1)).error_code is ErrorCode.none
    assert (await set_level(0, 2)).error_code is ErrorCode.invalid_update_version
    assert (await set_level(2, 1)).error_code is ErrorCode.invalid_update_version


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.invalid_update_version])
@run_with(run_controllers)
async def test_kraft_version_is_raised_before_anything_is_written(
    cluster: SimControllers, /, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[UpgradeRequest] = []

    async def ask(_quorum: RaftQuorum, request: UpgradeRequest) -> UpgradeResponse:
        asked.append(request)
        return UpgradeResponse(error=code, leader=LeaderHint(1), message="")

    controller = await cluster.active()
    await cluster.wait(lambda: bool(controller.context.image.cluster.controllers))
    monkeypatch.setattr(RaftQuorum, "kraft_version", 0)
    monkeypatch.setattr(RaftQuorum, "ask", ask)
    levels = {"kraft.version": (1, 1), "transaction.version": (1, 2)}
    updates = [
        row("FeatureUpdateKey", feature=name, max_version_level=level, upgrade_type=kind)
        for name, (level, kind) in levels.items()
    ]
    fields = {"timeout": 1000, "feature_updates": updates, "validate_only": False}
    answer = await controller.ask(ApiKey.UPDATE_FEATURES, 2, **fields)
    assert answer.error_code is code
    assert asked == [UpgradeRequest(kraft_version=1)]
    written = controller.context.image.features.levels["transaction.version"]
    assert written == (1 if code is ErrorCode.none else 2)
