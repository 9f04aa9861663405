"""DescribeConfigs (32) at a controller: its own settings and loggers, and all resources of the metadata (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.serving.config_answer import answer_describe_configs

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


def handle(context: ControllerContext, request: Request) -> Any:
    """Describe every resource of the request; only a broker itself knows the settings of its file."""
    return answer_describe_configs(context, request)
