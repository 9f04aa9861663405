"""Settings that contradict each other stop the start."""

from __future__ import annotations

import pytest

from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from tests.unit.config.nodes import MINIMAL, server


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listeners": "PLAINTEXT://:9092"}, r"a controller needs a listener of controller\.listener\.names"),
        ({"listeners": "CONTROLLER://:9093"}, "a broker needs a listener that is not"),
        ({"process.roles": "broker"}, "only a broker cannot listen on CONTROLLER"),
        ({"controller.quorum.bootstrap.servers": ""}, r"controller\.quorum\.voters must name the controllers"),
        ({"broker.heartbeat.interval.ms": "6000"}, r"at most half of broker\.session\.timeout\.ms"),
        ({"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "4000000"}, "at least 1MB per cleaner thread"),
        ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, "must not be more than"),
        ({"replica.fetch.wait.max.ms": "40000"}, r"replica\.socket\.timeout\.ms must be at least"),
        (
            {"replica.fetch.wait.max.ms": "40000", "replica.socket.timeout.ms": "50000"},
            r"must not be more than replica\.lag\.time\.max\.ms",
        ),
        ({"offsets.topic.compression.codec": "5"}, "must be 0 to 4"),
        ({"group.consumer.session.timeout.ms": "61000"}, "its own limits allow 45000 to 60000"),
        (
            {"group.consumer.max.heartbeat.interval.ms": "90000", "group.consumer.heartbeat.interval.ms": "45000"},
            r"must be less than group\.consumer\.session\.timeout\.ms",
        ),
        ({"queued.max.request.bytes": "5"}, r"must be at least socket\.request\.max\.bytes"),
        ({"max.connections.per.ip": "0"}, "zero only if there are overrides"),
        ({"remote.log.storage.system.enable": "true"}, r"needs remote\.log\.storage\.manager\.class\.name"),
    ],
)
def test_contradiction_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServerConfig.from_properties({**MINIMAL, **changes})


def test_zero_connections_are_allowed_with_overrides() -> None:
    config = server(max_connections_per_ip="0", max_connections_per_ip_overrides="localhost:5")
    assert config.max_connections_per_ip_overrides == {"localhost": 5}


TIER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"log.retention.ms": "5", "log.local.retention.ms": "6"},
            (
                "Invalid value 6 for configuration log.local.retention.ms: "
                "Value must not be more than log.retention.ms property value: 5"
            ),
        ),
        (
            {"log.retention.bytes": "5", "log.local.retention.bytes": "-1"},
            (
                "Invalid value -1 for configuration log.local.retention.bytes: "
                "Value must not be -1 as log.retention.bytes value is set as 5."
            ),
        ),
    ],
)
def test_a_node_with_a_tier_keeps_no_more_locally_than_in_total(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig.from_properties({**MINIMAL, **TIER, **changes})
    assert str(caught.value) == message
    # Without a tier the local limits are not read.
    ServerConfig.from_properties({**MINIMAL, **changes})
