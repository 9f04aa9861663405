"""The types of the embedded kit, as mypy sees them in the code of users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USERS_CODE = '''"""Tests as users write them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from crabka.embedded import Broker, Cluster, Row, Settings


def test_broker(tmp_path: Path) -> None:
    settings: Settings = {"num.partitions": 3, "auto.create.topics.enable": False, "metadata.log.dir": tmp_path}
    with Broker(settings, data_dir=tmp_path / "data", tier=tmp_path / "tier", port=0) as broker:
        topic: str = broker.create_topic("orders", partitions=3, settings={"cleanup.policy": "compact"})
        broker.produce(topic, ["a", b"b", ("key", "value"), Row("c", headers={"h": "1"}, partition=2)])
        values: list[bytes | None] = [record.value for record in broker.records(topic)]
        found = broker.wait_until(lambda: [each for each in values if each], timeout=1.0)
        assert found[0].startswith(b"a")
        with broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, topic=topic) as fault:
            assert fault.hits == 0
        broker.delay("Fetch", 0.5)
        broker.throttle("Fetch", 100)
        broker.drop_connection(after="Produce").wait_hit(timeout=1.0)
        errors: list[tuple[str, ...]] = [entry.errors for entry in broker.requests("OffsetCommit")]
        print(broker.journal, errors, broker.lag("group") + 1)
        broker.restart()
        broker.kill()


def test_cluster() -> None:
    with Cluster(nodes=3, settings={"min.insync.replicas": 2}) as cluster:
        node: int = cluster.leader("orders")
        cluster.partition([node], [each for each in cluster.node_ids if each != node])
        cluster[node].fail_next("Fetch", "UNKNOWN_SERVER_ERROR")
        restart: Callable[[int], None] = cluster.restart
        restart(node)
        addresses: list[str] = [each.bootstrap_servers for each in cluster]
        print(addresses, cluster.bootstrap.split(","))


async def test_async() -> None:
    async with Broker() as broker, Cluster() as cluster:
        await asyncio.to_thread(cluster.kill, 1)
        print(broker.bootstrap_servers)
'''

MISTAKES = """from crabka.embedded import Broker, Cluster

Broker({"num.partitions": [1]})
Broker().fail_next("Produce", error=1)
Broker().produce("t", [1])
Cluster(3).kill("1")
"""


def mypy(directory: Path, code: str) -> tuple[int, str]:
    """Check a module as a project does that has nothing but Crabka installed."""
    (directory / "test_own.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache", "test_own.py"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_code_of_users_passes_mypy_strict_and_mistakes_are_found(tmp_path: Path) -> None:
    assert mypy(tmp_path, USERS_CODE) == (0, "Success: no issues found in 1 source file\n")
    _, complaints = mypy(tmp_path, MISTAKES)
    assert [line.split(":")[1] for line in complaints.splitlines() if ": error: " in line] == ["3", "4", "5", "6"]
