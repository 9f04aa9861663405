"""UpdateFeatures (57): changes finalized feature levels (KIP-584, KIP-778). All changes of a request or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.features import SAFE_DOWNGRADE, UPGRADE, FeatureScope, FeatureUpdate, update_features
from crabka.kraft.messages import UpgradeRequest
from crabka.metadata.features import KRAFT_VERSION
from crabka.metadata.requests import ItemVerdict
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request

_FIRST_VERSION_WITHOUT_RESULTS = 2


async def handle(context: ControllerContext, request: Request) -> Any:
    """Decide on the changes and write them."""
    body = request.body
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, _upgrade_type(update))
        for update in body.feature_updates
    ]
    verdicts = await _carry_out(context, updates, validate_only=getattr(body, "validate_only", False))
    types = response_types(request.api_key, request.version)
    failed = _failed(verdicts)
    if failed and request.version >= _FIRST_VERSION_WITHOUT_RESULTS:
        verdict = failed[0]
        message = f"The update failed for all features since the following feature had an error: {verdict.message}"
        return types.message(throttle_time=0, error_code=verdict.error_code, error_message=message)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        error_message=None,
        results=[
            types.new(
                "UpdatableFeatureResult", feature=name, error_code=verdict.error_code, error_message=verdict.message
            )
            for name, verdict in verdicts.items()
        ],
    )


async def _carry_out(
    context: ControllerContext, updates: list[FeatureUpdate], *, validate_only: bool
) -> dict[str, ItemVerdict]:
    """Decide; the quorum raises kraft.version after all other changes were accepted and before they are written."""
    scope = FeatureScope(
        node_id=context.node_id,
        voters=[voter.voter_id for voter in context.quorum.voters],
        min_insync_replicas=context.static_config.min_insync_replicas,
        kraft_version=context.quorum.kraft_version,
    )
    raised = [each.level for each in updates if each.name == KRAFT_VERSION and each.level > scope.kraft_version]
    verdicts = await context.metadata_writer.submit(
        lambda image: update_features(image, updates, scope, validate_only=validate_only or bool(raised))
    )
    if not raised or _failed(verdicts):
        return verdicts
    response = await context.quorum.ask(UpgradeRequest(kraft_version=raised[0], validate_only=validate_only))
    if response.error is not ErrorCode.none:
        return {**verdicts, KRAFT_VERSION: ItemVerdict(response.error, response.message or None)}
    rest = [each for each in updates if each.name != KRAFT_VERSION]
    if rest and not validate_only:
        written = await context.metadata_writer.submit(lambda image: update_features(image, rest, scope))
        return {**verdicts, **written}
    return verdicts


def _failed(verdicts: dict[str, ItemVerdict]) -> list[ItemVerdict]:
    return [verdict for verdict in verdicts.values() if verdict.error_code is not ErrorCode.none]


def _upgrade_type(update: Any) -> int:
    upgrade_type: int | None = getattr(update, "upgrade_type", None)
    if upgrade_type is None:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return upgrade_type
