"""A tiered topic whose node dies at a named step: what was acknowledged, what can be read, is the tier clean."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.nodes.crabka_up import CrabkaProcess, crabka_command
from tests.support.nodes.process import NodeError, wait_until
from tests.support.tiers.reading import read_from_start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TOPIC: Final = "events"
RECORD_BYTES: Final = 1000
RECORD_COUNT: Final = 60
COPY_STEPS: Final = ("copy.before_started", "copy.after_started", "copy.after_upload", "copy.after_finished")
RETENTION_STEPS: Final = (
    "retention.before_log_start",
    "retention.after_log_start",
    "delete.before_started",
    "delete.after_started",
    "delete.after_data",
    "delete.after_finished",
)
DELETION_STEPS: Final = (
    "delete_partition.before_marked",
    "delete_partition.after_marked",
    "delete_partition.after_started",
    "delete_partition.before_finished",
)
STEPS: Final = COPY_STEPS + RETENTION_STEPS + DELETION_STEPS
# Segments of five records, looked at all the time, and leftovers of the dead taken up soon.
TIERED_TOPIC: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(5 * (RECORD_BYTES + 80)),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
}


def tier_settings(tier: Path, *, replicas: int) -> dict[str, str]:
    """Settings of a node with a directory as its tier."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "local",
        "rsm.config.dir": str(tier),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(min(2, replicas)),
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "crabka.remote.leftover.grace.ms": "1000",
    }


def dying_at(step: str) -> list[str]:
    """What to put before a command so that the process dies at a step: the second time if it surely comes twice."""
    count = 2 if step.startswith(("copy.", "delete.")) else 1
    return ["env", "CRABKA_ALLOW_FAILPOINTS=1", f"CRABKA_FAILPOINT={step}:{count}"]


class MortalNode(CrabkaProcess):
    """A node that dies at a step while `step` is set."""

    step = ""

    def _command(self) -> Sequence[str]:
        command = list(super()._command())
        return [*dying_at(self.step), *command] if self.step else command


def produce(
    bootstrap: str,
    acknowledged: list[bytes],
    *,
    count: int = RECORD_COUNT,
    timeout_s: float = 120,
    is_in_vain: Callable[[], bool] = lambda: False,
) -> None:
    """Write records, keeping those that were acknowledged; gives up the others once `is_in_vain` says so."""

    def note(error: KafkaError | None, message: object) -> None:
        if error is None:
            acknowledged.append(message.value())  # type: ignore[attr-defined]

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        | {"message.timeout.ms": int(timeout_s * 1000), "batch.num.messages": 1}
    )
    for number in range(count):
        producer.produce(TOPIC, b"%06d" % number + bytes(RECORD_BYTES - 6), partition=0, on_delivery=note)

    def is_over() -> bool:
        is_last = is_in_vain()
        producer.poll(0.05)
        if is_last:
            producer.purge()
        return len(producer) == 0

    wait_until(is_over, "all records are written or given up", timeout_s=timeout_s)


def read_all(bootstrap: str) -> tuple[int, list[bytes]]:
    """Return the log start and all values from there to the end."""
    return read_from_start(bootstrap, TOPIC)


def create(bootstrap: str, assignment: list[list[int]] | None = None) -> None:
    """Create the topic, on one node or on the given replicas."""
    placed = {"replication_factor": 1} if assignment is None else {"replica_assignment": assignment}
    topic = NewTopic(TOPIC, num_partitions=1, config=dict(TIERED_TOPIC), **placed)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([topic])[TOPIC].result(120)


def keep_only_bytes(bootstrap: str, count: int) -> None:
    """Let remote retention take most of the topic; a node that dies meanwhile need not answer."""
    entry = ConfigEntry("retention.bytes", str(count), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with contextlib.suppress(KafkaException):
        admin.incremental_alter_configs([resource])[resource].result(120)


def delete_topic(bootstrap: str) -> None:
    """Delete the topic; a node that dies meanwhile need not answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with contextlib.suppress(KafkaException):
        admin.delete_topics([TOPIC])[TOPIC].result(120)


def fsck(bootstrap: str, tier: Path) -> subprocess.CompletedProcess[str]:
    """Check the tier as an operator does."""
    command = [str(crabka_command()), "tier", "fsck", "--bootstrap", bootstrap, "--tier", f"file://{tier}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def wait_clean(bootstrap: str, tier: Path, *, timeout_s: float = 120) -> None:
    """Wait until the tier has no fault: what a dead node left is taken up by then."""
    last = ""

    def is_clean() -> bool:
        nonlocal last
        done = fsck(bootstrap, tier)
        last = done.stdout + done.stderr
        return done.returncode == 0

    try:
        wait_until(is_clean, "the tier is clean", timeout_s=timeout_s)
    except NodeError as error:
        raise NodeError(f"{error}; fsck says: {last}") from None


def segment_files(tier: Path) -> list[Path]:
    """Return the segments in the tier."""
    return sorted((tier / "kafka-tiered-storage").glob("*/*.log"))


def wait_tiered(tier: Path, count: int) -> None:
    """Wait until so many segments are in the tier."""
    wait_until(lambda: len(segment_files(tier)) >= count, f"{count} segments are in the tier")
