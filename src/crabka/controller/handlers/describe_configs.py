"""DescribeConfigs (32) at a controller: its own settings and loggers, and all that the metadata holds (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.serving.config_answer import answer_describe_configs

if TYPE_CHECKING:
    from crabka.controller.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Any:
    """Describe every asked resource; a broker's own settings are known to that broker alone."""
    return answer_describe_configs(context, request)
