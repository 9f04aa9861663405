"""Config changes at a broker: which go to the controller, and how the answers come together again."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.controller_link.config_forwarding import forward_changes, verdict_rows
from crabka.errors import OperationError
from crabka.metadata.requests import ItemVerdict
from crabka.protocol.apis import ApiKey, MessageTypes, response_types
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import Row, SimNode, build, row

LOGGERS = ItemVerdict(ErrorCode.invalid_config, "no such logger")


def resource(kind: int, name: str) -> Row:
    configs = [row("AlterableConfig", name="segment.ms", config_operation=0, value="7")]
    return row("AlterConfigsResource", resource_type=kind, resource_name=name, configs=configs)


def setting(types: MessageTypes, config: Any) -> Any:
    return types.new("AlterableConfig", name=config.name, config_operation=0, value=config.value)


def forward(node: SimNode, *resources: Row) -> list[tuple[str, ErrorCode]]:
    body = build(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=list(resources), validate_only=False)
    verdicts = node.run(
        forward_changes(
            node.context, ApiKey.INCREMENTAL_ALTER_CONFIGS, body, row=setting, loggers=lambda _resource: LOGGERS
        )
    )
    rows = verdict_rows(response_types(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), verdicts)
    return [(each.resource_name, each.error_code) for each in rows]


def test_verdicts_come_in_the_order_of_the_request(node: SimNode) -> None:
    node.create_topic("t")
    assert forward(node, resource(8, "1"), resource(2, "nope"), resource(8, "2"), resource(2, "t")) == [
        ("1", ErrorCode.invalid_config),
        ("nope", ErrorCode.unknown_topic_or_partition),
        ("2", ErrorCode.invalid_config),
        ("t", ErrorCode.none),
    ]
    assert node.context.image.configs.get(2, "t") == {"segment.ms": "7"}


def test_loggers_need_no_controller(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.context, "controller", None)
    assert forward(node, resource(8, "1")) == [("1", ErrorCode.invalid_config)]


def test_without_a_controller_every_other_resource_fails(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoController:
        async def request(self, *_args: Any) -> Any:
            raise OperationError(ErrorCode.request_timed_out)

    monkeypatch.setattr(node.context, "controller", NoController())
    assert forward(node, resource(2, "t"), resource(8, "1")) == [
        ("t", ErrorCode.request_timed_out),
        ("1", ErrorCode.invalid_config),
    ]


def cordoned(paths: str) -> Row:
    configs = [row("AlterableConfig", name="cordoned.log.dirs", config_operation=0, value=paths)]
    return row("AlterConfigsResource", resource_type=4, resource_name="1", configs=configs)


def test_a_broker_knows_its_own_log_dirs(node: SimNode) -> None:
    assert forward(node, cordoned("/elsewhere")) == [("1", ErrorCode.invalid_request)]
    assert node.context.image.configs.get(4, "1") == {}
    assert forward(node, cordoned("/d1")) == [("1", ErrorCode.none)]
