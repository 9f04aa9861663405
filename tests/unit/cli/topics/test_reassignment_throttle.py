"""Which replicas are throttled while they move."""

from __future__ import annotations

from typing import Any

from crabka.cli.topics.reassignment_throttle import (
    FOLLOWERS,
    LEADERS,
    RATES,
    clear_throttle,
    set_throttle,
    throttled_replicas,
)
from crabka.clients.admin.admin import Admin
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_old_replicas_lead_and_new_ones_follow() -> None:
    current = {T0: (1, 2), T1: (1,), U0: (1, 2)}
    plan = {T0: (2, 3), T1: (2,), U0: (2,)}
    assert throttled_replicas(current, plan) == {"t": {LEADERS: "0:1,0:2,1:1", FOLLOWERS: "0:3,1:2"}}


def _living(request: ReceivedRequest) -> Any:
    brokers = [
        request.types.new("DescribeClusterBroker", broker_id=node, host="h", port=1, rack=None, is_fenced=False)
        for node in (1, 2)
    ]
    return request.types.message(
        throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=1, brokers=brokers
    )


class ConfigsOfTest:
    """Settings of topics and brokers, as IncrementalAlterConfigs leaves them."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}
        self.alters = 0

    def alter(self, request: ReceivedRequest) -> Any:
        self.alters += 1
        results = []
        for resource in request.body.resources:
            for change in resource.configs:
                key = (resource.resource_name, change.name)
                self.values.pop(key, None)
                if change.value is not None:
                    self.values[key] = change.value
            results.append(
                request.types.new(
                    "AlterConfigsResourceResponse",
                    error_code=ErrorCode.none,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return request.types.message(throttle_time=0, responses=results)

    def describe(self, request: ReceivedRequest) -> Any:
        (resource,) = request.body.resources
        configs = [
            request.types.new(
                "DescribeConfigsResourceResult",
                name=key,
                value=self.values.get((resource.resource_name, key), ""),
                read_only=False,
                is_sensitive=False,
                synonyms=[],
                documentation=None,
            )
            for key in resource.configuration_keys
        ]
        result = request.types.new(
            "DescribeConfigsResult",
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )
        return request.types.message(throttle_time=0, results=[result])


def test_the_throttle_is_set_on_living_brokers_and_removed_where_it_is() -> None:
    configs = ConfigsOfTest()

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        for topic in ("t", "u"):
            simulation.brokers.create_topic(topic)
        await set_throttle(admin, {T0: (1,)}, {T0: (2, 7)}, 1000)
        rates = {(broker, rate): "1000" for broker in ("1", "2") for rate in RATES}
        assert configs.values == {("t", LEADERS): "0:1", ("t", FOLLOWERS): "0:2,0:7", **rates}
        configs.alters = 0
        await clear_throttle(admin, ["t", "deleted"])
        assert configs.values == {}
        assert configs.alters == 3
        await clear_throttle(admin)
        assert configs.alters == 3
        asked = simulation.brokers.asked(ApiKey.DESCRIBE_CONFIGS)
        assert {request.body.resources[0].resource_name for request in asked} == {"t", "u", "1", "2"}

    with_admin(
        test,
        node_ids=(1, 2),
        DESCRIBE_CLUSTER=_living,
        INCREMENTAL_ALTER_CONFIGS=configs.alter,
        DESCRIBE_CONFIGS=configs.describe,
    )
