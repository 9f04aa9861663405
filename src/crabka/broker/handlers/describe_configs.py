"""DescribeConfigs (32): settings of topics, brokers, loggers, groups and client metrics with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.serving.config_answer import answer_describe_configs

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every asked resource, all of its settings or the asked ones."""
    return answer_describe_configs(context, request)
