"""Config changes of a request: those of loggers happen in this process, all others in the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.decisions.configs import alter_configs
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.requests import ItemVerdict, ResourceChange
from crabka.serving.log_levels import change_loggers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.context import ControllerContext


async def change_configs(
    context: ControllerContext, changes: Sequence[ResourceChange], *, validate_only: bool
) -> list[ItemVerdict]:
    """Carry out the changes; return a verdict for each, in order."""
    stored = [change for change in changes if change.resource.resource_type != ConfigResourceType.BROKER_LOGGER]
    decided: list[ItemVerdict] = []
    if stored:
        decided = await context.metadata_writer.submit(
            lambda image: alter_configs(image, stored, context.static_config, validate_only=validate_only)
        )
    verdicts = iter(decided)
    return [
        change_loggers(context.static_config, change, validate_only=validate_only)
        if change.resource.resource_type == ConfigResourceType.BROKER_LOGGER
        else next(verdicts)
        for change in changes
    ]
