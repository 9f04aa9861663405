"""Kafka's own tools look at log dirs and move replicas between them; Kafka takes over what lies there afterwards."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import KafkaException

from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.ids import TopicPartition
from tests.support.clients.load import read_numbers
from tests.support.clients.target import target_is_jvm, target_node
from tests.support.kafka.oracle import JvmKafka, ToolResult, require_jvm, run_tool
from tests.support.nodes.crabka_up import READY, crabka_command
from tests.support.nodes.process import NodeProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

TOPICS = "org.apache.kafka.tools.TopicCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
MOVE_SECONDS = 120.0
PADDING = b" " * 1000


class Disks(NamedTuple):
    """A node with three log dirs."""

    node: NodeProcess
    dirs: list[str]
    node_id: str

    def tool(self, main_class: str, *arguments: str, check: bool = True) -> ToolResult:
        return run_tool(main_class, "--bootstrap-server", self.node.bootstrap_servers, *arguments, check=check)

    def describe(self, topic: str) -> dict[str, dict[str, Any]]:
        """What kafka-log-dirs reports of a topic: dir -> replica -> its row."""
        report = json.loads(self.tool(LOG_DIRS, "--describe", "--topic-list", topic).lines[-1])
        (broker,) = report["brokers"]
        assert all(each["error"] is None for each in broker["logDirs"])
        return {
            each["logDir"]: {replica["partition"]: replica for replica in each["partitions"]}
            for each in broker["logDirs"]
        }

    def place(self, topic: str) -> str:
        """The dir of partition 0."""
        (path,) = [
            path
            for path, replicas in self.describe(topic).items()
            if any(not each["isFuture"] for each in replicas.values())
        ]
        return path


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    require_jvm()
    root = tmp_path_factory.mktemp("disks")
    dirs = [str(root / name) for name in ("a", "b", "c")]
    with target_node(root / "node", {"log.dirs": ",".join(dirs)}) as node:
        with SyncAdmin(node.bootstrap_servers) as admin:
            node_id = str(admin.cluster.describe().brokers[0].node_id)
        yield Disks(node, dirs, node_id)


def _fill(bootstrap: str, topic: str, numbers: Sequence[int]) -> None:
    with SyncProducer(bootstrap) as producer:
        producer.send_many(topic, [(None, b"%d" % number + PADDING) for number in numbers])


def _plan(path: Path, disks: Disks, topic: str, target: str) -> list[str]:
    entry = {"topic": topic, "partition": 0, "replicas": [int(disks.node_id)], "log_dirs": [target]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return ["--reassignment-json-file", str(path)]


def test_kafka_reassign_partitions_moves_a_replica_to_another_log_dir(disks: Disks, tmp_path: Path) -> None:
    disks.tool(TOPICS, "--create", "--topic", "moved", "--partitions", "1", "--replication-factor", "1")
    numbers = range(2_000)
    _fill(disks.node.bootstrap_servers, "moved", numbers)
    source = disks.place("moved")
    target = next(path for path in disks.dirs if path != source)
    file = _plan(tmp_path / "plan.json", disks, "moved", target)
    # So little a second that the move can be looked at.
    started = disks.tool(REASSIGN, "--execute", *file, "--replica-alter-log-dirs-throttle", "200000").stdout
    assert "The replica-alter-dir throttle limit was set to 200000 B/s" in started
    assert f"Successfully started moving log directory to {target} for replica moved-0 with broker" in started
    looked = wait_until(
        lambda: (found := disks.describe("moved"))[target].get("moved-0", {}).get("size") and found,
        "the future replica has bytes",
        timeout_s=MOVE_SECONDS,
    )
    assert not looked[source]["moved-0"]["isFuture"]
    assert looked[target]["moved-0"]["isFuture"]
    assert looked[target]["moved-0"]["offsetLag"] > 0
    assert "still in progress" in disks.tool(REASSIGN, "--verify", *file, "--preserve-throttles").stdout
    faster = ["--entity-type", "brokers", "--entity-name", disks.node_id, "--alter"]
    rate = "replica.alter.log.dirs.io.max.bytes.per.second=1000000000"
    disks.tool(CONFIGS, *faster, "--add-config", rate)
    done = f"Reassignment of replica moved-0-{disks.node_id} completed successfully."
    wait_until(
        lambda: done in disks.tool(REASSIGN, "--verify", *file).stdout, "the replica has moved", timeout_s=MOVE_SECONDS
    )
    assert disks.place("moved") == target
    assert list(read_numbers(disks.node.bootstrap_servers, "moved", 0).values()) == list(numbers)
    wait_until(lambda: not list(Path(source).glob("moved-0")), "the old copy has another name")


def test_kafka_reassign_partitions_knows_a_log_dir_that_is_none(disks: Disks, tmp_path: Path) -> None:
    disks.tool(TOPICS, "--create", "--topic", "stays", "--partitions", "1", "--replication-factor", "1")
    file = _plan(tmp_path / "plan.json", disks, "stays", str(tmp_path / "elsewhere"))
    refused = disks.tool(REASSIGN, "--execute", *file, "--timeout", "2000", check=False)
    assert refused.code != 0 or "Failed" in refused.stdout
    assert "LogDirNotFoundException" in refused.stdout + refused.stderr


def test_kafka_configs_cordons_a_log_dir(disks: Disks) -> None:
    change = ["--entity-type", "brokers", "--entity-name", disks.node_id, "--alter"]
    disks.tool(CONFIGS, *change, "--add-config", f"cordoned.log.dirs=[{disks.dirs[1]},{disks.dirs[2]}]")
    with SyncAdmin(disks.node.bootstrap_servers) as admin:
        cordoned = [each.path for each in admin.log_dirs.describe(int(disks.node_id)) if each.is_cordoned]
    assert cordoned == disks.dirs[1:]
    disks.tool(TOPICS, "--create", "--topic", "fenced", "--partitions", "3", "--replication-factor", "1")
    found = {path: len(replicas) for path, replicas in disks.describe("fenced").items()}
    assert found == dict(zip(disks.dirs, (3, 0, 0), strict=True))
    refused = disks.tool(CONFIGS, *change, "--add-config", "cordoned.log.dirs=/elsewhere", check=False)
    assert refused.code != 0
    disks.tool(CONFIGS, *change, "--delete-config", "cordoned.log.dirs")


def test_crabka_log_dirs_works_with_either_broker(disks: Disks) -> None:
    def crabka(*arguments: str) -> str:
        command = [str(crabka_command()), "log-dirs", *arguments, "--bootstrap", disks.node.bootstrap_servers]
        return subprocess.run(command, capture_output=True, text=True, timeout=MOVE_SECONDS, check=True).stdout

    def states() -> dict[str, str]:
        return {row["dir"]: row["state"] for row in json.loads(crabka("list", "--json"))["dirs"]}

    disks.tool(TOPICS, "--create", "--topic", "spread", "--partitions", "3", "--replication-factor", "1")
    with SyncProducer(disks.node.bootstrap_servers) as producer:
        for partition in range(3):
            producer.send("spread", PADDING * 100, partition=partition).result(120)
    for partition in range(3):
        crabka("move", f"spread-{partition}", "--to", disks.dirs[0], "--wait")
    assert len(disks.describe("spread")[disks.dirs[0]]) == 3
    listed = json.loads(crabka("list", "--json"))["dirs"]
    assert all(row["total_bytes"] >= row["free_bytes"] > 0 for row in listed)
    crabka("cordon", disks.dirs[2])
    assert states() == dict(zip(disks.dirs, ("online", "online", "cordoned"), strict=True))
    plan = json.loads(crabka("balance", "--json", "--tolerance", "0"))
    assert {row["to"] for row in plan} <= set(disks.dirs[:2])
    crabka("uncordon", disks.dirs[2])
    assert set(states().values()) == {"online"}


class CrabkaWithKafkaProperties(JvmKafka):
    """Crabka on directories and with properties that Kafka made."""

    name = "crabka"

    def _command(self) -> Sequence[str]:
        return [str(crabka_command()), "serve", "--config", str(self.properties_path)]

    def _is_ready(self) -> bool:
        return READY in self.stdout_path.read_text()


class KafkaOnCopiedDisks(JvmKafka):
    """Kafka on copies of directories that are formatted already."""

    def format(self) -> None:
        """Write the properties only."""
        self._write_properties()


def test_kafka_reads_everything_after_replicas_moved(tmp_path: Path) -> None:
    require_jvm()
    if target_is_jvm():
        pytest.skip("Kafka on its own directories proves nothing")
    names = ("a", "b")
    dirs = [str(tmp_path / "disks" / name) for name in names]
    node = CrabkaWithKafkaProperties(tmp_path / "node", {"log.dirs": ",".join(dirs)})
    topics = ("one", "two", "three")
    with node:
        with SyncAdmin(node.bootstrap_servers) as admin:
            for topic in topics:
                _create(admin, topic)
                _fill(node.bootstrap_servers, topic, range(1_000))
            for topic in topics:
                _move_to_other(admin, topic)
                _fill(node.bootstrap_servers, topic, range(1_000, 1_500))
            _move_to_other(admin, "one")
        places = {
            topic: [name for name in names if (tmp_path / "disks" / name / f"{topic}-0").exists()] for topic in topics
        }
        assert all(len(found) == 1 for found in places.values()), places
    copies = tmp_path / "copies"
    shutil.copytree(tmp_path / "disks", copies)
    kafka = KafkaOnCopiedDisks(tmp_path / "kafka", {"log.dirs": ",".join(str(copies / name) for name in names)})
    kafka.port, kafka._controller_port = node.port, node._controller_port
    with kafka:
        for topic in topics:
            stored = _read(kafka.bootstrap_servers, topic)
            assert list(stored.values()) == list(range(1_500))
        _fill(kafka.bootstrap_servers, "one", [1_500])
        assert len(read_numbers(kafka.bootstrap_servers, "one", 0)) == 1_501


def _read(bootstrap: str, topic: str) -> dict[int, int]:
    """Read a topic as soon as its broker serves it."""

    def attempt() -> dict[int, int] | None:
        with contextlib.suppress(KafkaException):
            return read_numbers(bootstrap, topic, 0)
        return None

    return wait_until(attempt, f"{topic} can be read", timeout_s=MOVE_SECONDS) or {}


def _create(admin: SyncAdmin, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1, {"segment.bytes": "1048576"})])


def _move_to_other(admin: SyncAdmin, topic: str) -> None:
    def place(is_future: bool) -> list[str]:
        return [
            each.path
            for each in admin.log_dirs.describe(1)
            if (topic, 0) in each.replicas and each.replicas[topic, 0].is_future is is_future
        ]

    (source,) = place(False)
    target = next(each.path for each in admin.log_dirs.describe(1) if each.path != source)
    admin.log_dirs.move_replicas(1, {TopicPartition(topic, 0): target})
    wait_until(lambda: place(False) == [target] and not place(True), f"{topic} has moved", timeout_s=MOVE_SECONDS)
