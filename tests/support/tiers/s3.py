"""A cluster of real processes whose tier is a bucket of a real S3 server, behind a proxy that can hold requests."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import ClusterNode, CrabkaClusterNode, NodeSpec
from tests.support.faults.tier_kills import tier_settings
from tests.support.nodes.crabka_up import crabka_command
from tests.support.nodes.process import NodeError, wait_until
from tests.support.tiers.versitygw import VersityGateway
from tests.support.wire.http_server import FaultyProxy, HttpFault

if TYPE_CHECKING:
    import random
    from pathlib import Path
    from types import TracebackType

    from confluent_kafka import KafkaError

SPARE_BROKER: Final = 4
SEGMENT_RECORDS: Final = 5
RECORD_BYTES: Final = 1000
SEGMENT_BYTES: Final = SEGMENT_RECORDS * (RECORD_BYTES + 80)
# Shorter than Kafka's time-outs.
HASTY: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
IMPATIENT: Final = {"retry_max": "2", "retry_backoff_ms": "10", "retry_backoff_max_ms": "100"}
TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
}


class S3TierCluster:
    """Three nodes and one more broker with nothing on it, the S3 server, and what was acknowledged by topic."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._ending = contextlib.ExitStack()
        self.acknowledged: dict[str, list[bytes]] = {}

    def __enter__(self) -> Self:
        """Start the server, the proxy and the nodes."""
        with contextlib.ExitStack() as ending:
            self.gateway = ending.enter_context(VersityGateway(self._directory / "s3"))
            self.proxy = ending.enter_context(FaultyProxy(self.gateway.port))
            local = tier_settings(self._directory, replicas=3)
            stored = self.gateway.storage_settings(endpoint=self.proxy.endpoint, prefix="tier", **IMPATIENT)
            settings = {name: value for name, value in local.items() if not name.startswith("rsm.")}
            settings |= {f"rsm.config.{name}": value for name, value in stored.items()} | HASTY
            settings["remote.log.storage.manager.class.name"] = "s3"
            shape = [*combined(3), NodeSpec(SPARE_BROKER, is_broker=True, is_controller=False)]
            nodes = ClusterProcesses(self._directory, CrabkaClusterNode, shape, settings=settings)
            self.nodes = ending.enter_context(nodes)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all."""
        for fault in self.proxy.faults:
            if fault.wait_for is not None:
                fault.wait_for.set()
        self._ending.close()

    # -- topics ----------------------------------------------------------------------------------------------------

    def create(self, topic: str, **config: str) -> None:
        """Create a tiered topic of one partition on the three nodes; settings are named with underscores for dots."""
        settings = TIERED | {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, num_partitions=1, replica_assignment=[[1, 2, 3]], config=settings)
        self.nodes.admin().create_topics([new])[topic].result(120)
        self.nodes.wait_in_sync([topic])
        self.acknowledged[topic] = []

    def configure(self, topic: str, **config: str) -> None:
        """Change settings of a topic."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.nodes.admin().incremental_alter_configs([resource])[resource].result(120)

    def produce(self, topic: str, count: int) -> None:
        """Write records of random bytes; all of them are acknowledged in the end, whichever node dies."""
        values = [self._rng.randbytes(RECORD_BYTES) for _ in range(count)]
        failures: list[KafkaError] = []
        producer = Producer(
            {"bootstrap.servers": self.nodes.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0}
            | {"message.timeout.ms": 60_000, "batch.num.messages": 1, "log_level": 0}
        )
        for value in values:
            producer.produce(
                topic, value, partition=0, on_delivery=lambda error, _message: failures.append(error) if error else None
            )
        assert producer.flush(120) == 0
        assert failures == []
        self.acknowledged[topic] += values

    def leader_of(self, topic: str) -> ClusterNode:
        """Return the node that leads, as a running node reports it."""
        node_id = wait_until(lambda: max(self._leader_id(topic), 0), f"{topic} is led")
        return self.nodes.nodes[node_id]

    def wait_led_by_another(self, topic: str, old: ClusterNode) -> None:
        """Wait until a failover is over."""
        wait_until(lambda: self._leader_id(topic) not in (-1, old.node_id), "another node leads")

    def _leader_id(self, topic: str) -> int:
        states = self.nodes.partition_states(self.nodes.server_list[0], [topic])
        return states[0][0] if states else -1

    # -- the tier --------------------------------------------------------------------------------------------------

    def hold(self, method: str, path: str = "", *, skip: int = 0) -> HttpFault:
        """Hold requests of the brokers on their way to the server until the event of the fault is set."""
        return self.proxy.add(HttpFault(method=method, path=path, skip=skip, wait_for=threading.Event()))

    def release(self, fault: HttpFault) -> None:
        """Let requests pass."""
        self.proxy.faults.remove(fault)
        assert fault.wait_for is not None
        fault.wait_for.set()

    def log_objects(self, topic: str) -> list[Path]:
        """Return the segments of a topic in the bucket, as files of the server, by their first offset."""
        return sorted((self.gateway.bucket_dir / "tier").glob(f"{topic}-0-*/*.log"), key=lambda path: path.name)

    def wait_tiered(self, topic: str) -> None:
        """Wait until all that is surely in sealed segments lies in the bucket."""
        sealed_count = (len(self.acknowledged[topic]) - 1) // SEGMENT_RECORDS

        def is_there() -> bool:
            return len({path.name.partition("-")[0] for path in self.log_objects(topic)}) >= sealed_count

        wait_until(is_there, f"{topic} is in the tier")

    def check(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `crabka tier verify` or `fsck` with the settings of a broker."""
        servers = ",".join(self.nodes.server_list)
        config = str(self.nodes.nodes[SPARE_BROKER].properties_path)
        arguments = ["tier", command, "--bootstrap", servers, "--config", config, *options]
        return subprocess.run(
            [str(crabka_command()), *arguments], capture_output=True, text=True, check=False, timeout=120
        )

    def wait_clean(self) -> None:
        """Wait until the tier has no fault: what a dead or late node left is taken up by then."""
        last: list[str] = [""]

        def is_clean() -> bool:
            done = self.check("fsck", "--grace", "0.05")
            last[0] = done.stdout + done.stderr
            return done.returncode == 0

        try:
            wait_until(is_clean, "the tier is clean")
        except NodeError as error:
            raise NodeError(f"{error}; fsck says: {last[0]}") from None

    def move_to_spare(self, topic: str) -> None:
        """Let the broker that never had anything be the only replica."""
        arguments = ["partitions", "reassign", "--topic", topic, "--replicas", str(SPARE_BROKER), "--wait"]
        servers = ",".join(self.nodes.server_list)
        done = subprocess.run(
            [str(crabka_command()), *arguments, "--bootstrap", servers],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
