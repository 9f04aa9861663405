"""Wild numbers in every field of every quorum API, on both listeners: the node lives, and starts again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import psutil
import pytest

from crabka.broker.api_table import SERVED
from crabka.formats.quorum_state import decode_quorum_state
from crabka.kraft.epochs import MAX_EPOCH
from crabka.protocol.apis import ApiKey
from tests.support.clients.raw_request import ask
from tests.support.faults.wild_numbers import BROKER_KEYS, QUORUM_KEYS, WildFacts, attack
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
from tests.support.nodes.sim_node import row
from tests.support.scale import scaled

pytestmark = pytest.mark.interop


def _controller_port(node: CrabkaProcess) -> int:
    listening = psutil.Process(node.pid).net_connections("tcp")
    ports = {each.laddr.port for each in listening if each.status == psutil.CONN_LISTEN}
    (port,) = ports - {node.port}
    return int(port)


def _create_topic(node: CrabkaProcess, name: str) -> None:
    """Create a topic; a broker that was just unregistered needs a heartbeat to notice and to come back."""
    topic = row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])

    def is_created() -> bool:
        answer = ask(node.port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=30_000, validate_only=False)
        return int(answer.topics[0].error_code) == 0

    wait_until(is_created, f"topic {name} is created", poll_s=0.1)


def _meta(node: CrabkaProcess) -> dict[str, str]:
    text = (node.data_dir / "meta.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_wild_numbers_leave_a_node_that_serves_and_starts_again(tmp_path: Path, rng: random.Random) -> None:
    count = scaled(300, 50_000)
    with CrabkaProcess(tmp_path / "node") as node:
        facts = WildFacts(cluster_id=_meta(node)["cluster.id"])
        _create_topic(node, "before")
        attack(("127.0.0.1", _controller_port(node)), rng, QUORUM_KEYS, count, facts)
        served = [key for key in QUORUM_KEYS if key in SERVED]
        attack(("127.0.0.1", node.port), rng, (*served, *BROKER_KEYS), count, facts)
        assert node.is_alive(), node.last_output()
        _create_topic(node, "after")
        state_path = node.data_dir / "__cluster_metadata-0" / "quorum-state"
        state = decode_quorum_state(state_path.read_bytes())
        assert state.leader_epoch < MAX_EPOCH // 2, json.loads(state_path.read_text())
        assert "Traceback" not in node.stderr_text(), node.stderr_text()[-4000:]
        node.kill()
        node.start()
        _create_topic(node, "again")
