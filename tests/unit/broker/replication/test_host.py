"""What a partition knows of its node."""

from __future__ import annotations

from crabka.broker.replication.host import DEFAULT_MAX_LAG_MS, NO_HOST, ReplicaHost
from crabka.broker.replication.throttle import LEADER_RATE
from crabka.metadata.configs import ConfigResource, ConfigResourceType, ConfigsImage
from tests.support.storage.replicas import LedPartition, replicated_image


def test_without_a_node_there_are_no_peers_and_time_stands_still() -> None:
    assert (NO_HOST.now_ms(), dict(NO_HOST.brokers()), NO_HOST.max_lag_ms()) == (0, {}, DEFAULT_MAX_LAG_MS)
    assert not NO_HOST.throttle.is_exceeded(0)


def test_without_a_node_a_proposal_stays_where_it_is() -> None:
    led = LedPartition(replicated_image(1, 2))
    led.partition.host = NO_HOST
    led.append(1)
    led.fetch(2, 1)
    led.partition.followers.shrink_isr()
    replication = led.partition.replication
    assert replication is not None
    assert replication.isr_state.isr == (1, 2)


def test_nothing_is_sent_without_a_receiver() -> None:
    led = LedPartition()
    replication = led.partition.replication
    assert replication is not None
    NO_HOST.propose(led.partition, replication.isr_state.propose((1,)))
    assert led.world.proposals == []


def test_the_rate_of_throttled_replicas_is_taken_from_the_settings() -> None:
    host = ReplicaHost(now_ms=lambda: 0)
    resource = ConfigResource(ConfigResourceType.BROKER, "1")
    host.take_rate(ConfigsImage({resource: {LEADER_RATE: "100"}}), 1)
    assert host.throttle.bytes_per_second == 100
    host.take_rate(ConfigsImage(), 1)
    assert host.throttle.bytes_per_second is None
