"""UpdateFeatures (57): changes finalized feature levels (KIP-584, KIP-778). All changes of a request or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.features import SAFE_DOWNGRADE, UPGRADE, FeatureScope, FeatureUpdate, update_features
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.control.context import ControlContext
    from crabka.serving.request import Request

_FIRST_VERSION_WITHOUT_RESULTS = 2


async def handle(context: ControlContext, request: Request) -> Any:
    """Decide on the changes and write them."""
    types = response_types(request.api_key, request.version)
    body = request.body
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, _upgrade_type(update))
        for update in body.feature_updates
    ]
    scope = FeatureScope(
        node_id=context.node_id,
        voters=[voter.voter_id for voter in context.quorum.voters],
        min_insync_replicas=context.static_config.min_insync_replicas,
    )
    verdicts = await context.metadata_writer.submit(
        lambda image: update_features(image, updates, scope, validate_only=getattr(body, "validate_only", False))
    )
    failed = {name: verdict for name, verdict in verdicts.items() if verdict.error_code is not ErrorCode.none}
    if failed and request.version >= _FIRST_VERSION_WITHOUT_RESULTS:
        verdict = next(iter(failed.values()))
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


def _upgrade_type(update: Any) -> int:
    upgrade_type: int | None = getattr(update, "upgrade_type", None)
    if upgrade_type is None:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return upgrade_type
