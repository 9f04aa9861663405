"""How long a partition takes no writes when a node is killed, by what the node was to the partition."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from os import kill

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.cluster_process.cluster import ClusterProcesses

# Who is killed and whether the active controller leads the partition.
FAILOVERS = {
    "leader_kill": ("leader", False),
    "controller_kill": ("controller", False),
    "both_kill": ("controller", True),
}
INTERVAL_S = 0.01
# librdkafka looks for a new leader once a second; somebody who measures must look more often.
LOOK_S = 0.05
STEADY_COUNT = 50
PATIENCE_S = 120.0
QUICK_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}


class RecoveryProbe:
    """Sends a record every few milliseconds and knows when the first one that was sent after a moment came through."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connect; nothing is sent yet."""
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUICK_PRODUCER})
        self._topic = topic
        self.acknowledged_count = 0
        self.killed_at = float("inf")
        self.recovered_at: float | None = None

    def run_until_steady(self) -> None:
        """Send until the partition has acknowledged enough to call it steady."""
        self._run(lambda: self.acknowledged_count >= STEADY_COUNT)

    def run_until_recovered(self) -> float:
        """Send until a record comes through that was sent after `killed_at`; returns the seconds from then."""
        self._run(lambda: self.recovered_at is not None)
        assert self.recovered_at is not None
        self._producer.flush(PATIENCE_S)
        return self.recovered_at - self.killed_at

    def _run(self, is_done: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + PATIENCE_S
        looked_at = 0.0
        while not is_done():
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{self._topic} takes no writes")
            self._send()
            self._producer.poll(INTERVAL_S)
            if time.perf_counter() > looked_at + LOOK_S and time.perf_counter() > self.killed_at:
                with contextlib.suppress(KafkaException):
                    self._producer.list_topics(self._topic, timeout=LOOK_S)
                looked_at = time.perf_counter()

    def _send(self) -> None:
        sent_at = time.perf_counter()

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise RuntimeError(str(error))
            self.acknowledged_count += 1
            if sent_at > self.killed_at and self.recovered_at is None:
                self.recovered_at = time.perf_counter()

        self._producer.produce(self._topic, b"probe", partition=0, on_delivery=delivered)


def seconds_to_recover(cluster: ClusterProcesses, key: str, number: int) -> float:
    """Kill a node of a whole cluster as FAILOVERS says, measure, and make the cluster whole again."""
    victim_role, controller_leads = FAILOVERS[key]
    controller = cluster.active_controller()
    others = sorted(cluster.nodes.keys() - {controller})
    replicas = [controller, *others] if controller_leads else [others[0], controller, others[1]]
    topic = f"{key}-{number}"
    cluster.create_topic(topic, 1, [replicas])
    victim = cluster.nodes[controller if victim_role == "controller" else replicas[0]]
    probe = RecoveryProbe(cluster.bootstrap_servers, topic)
    probe.run_until_steady()
    kill(victim.pid, signal.SIGKILL)
    probe.killed_at = time.perf_counter()
    seconds = probe.run_until_recovered()
    victim.kill()
    victim.launch()
    cluster.wait_serving(victim)
    cluster.wait_in_sync([topic])
    cluster.wait_voters_caught_up()
    return seconds
