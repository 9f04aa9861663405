"""Config changes of a request: those of loggers happen in this process, all others in the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.alter import AlterContext, apply_ops
from crabka.control.log_levels import logger_names, set_logger_level
from crabka.controller.configs import ResourceChange, alter_configs
from crabka.controller.outcome import ACCEPTED, ItemVerdict
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.config.server import ServerConfig
    from crabka.control.context import ControlContext


async def change_configs(
    context: ControlContext, changes: Sequence[ResourceChange], *, validate_only: bool
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


def change_loggers(server: ServerConfig, change: ResourceChange, *, validate_only: bool) -> ItemVerdict:
    """Set levels of loggers of this process."""
    alter_context = AlterContext(resource_name=change.resource.name, server=server, loggers=logger_names())
    try:
        altered = apply_ops(change.resource.resource_type, {}, change.ops, alter_context)
    except OperationError as error:
        return ItemVerdict.of(error)
    if not validate_only:
        for name, level in altered.items():
            set_logger_level(name, level)
    return ACCEPTED
