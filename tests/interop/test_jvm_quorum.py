"""A controller of Apache Kafka in one metadata quorum with ours: it joins, leads, takes in another, and hands over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from crabka.clients.sync.session import LoopThread
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.net import ConnectionLimits, Server
from crabka.quorum.formatting import FormatPlan, write_format
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.runtime.real import real_runtime
from tests.support.kafka.oracle import CLUSTER_ID, JvmKafka, require_jvm, run_tool
from tests.support.nodes.process import accepts_connections, wait_until
from tests.support.quorum.node import new_topic
from tests.support.quorum.raft_cluster import dispatch
from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from crabka.net import ConnectionInfo

JVM_ID = 2
PATIENCE_SECONDS = 120.0


class JvmController(JvmKafka):
    """A controller of Kafka that joins the quorum which it finds."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(directory)
        self._bootstrap = bootstrap

    def format(self) -> None:
        """Format it as one that joins a quorum."""
        if self.properties_path.exists():
            return
        lines = [f"{key}={value}" for key, value in self._properties().items()]
        self.properties_path.write_text("\n".join(lines) + "\n")
        arguments = ["format", "--config", str(self.properties_path), "--cluster-id", CLUSTER_ID]
        run_tool("kafka.tools.StorageTool", *arguments, "--no-initial-controllers")

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(JVM_ID),
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self._bootstrap,
            "controller.quorum.auto.join.enable": "true",
            "log.dirs": str(self.data_dir),
        }

    def _is_ready(self) -> bool:
        return accepts_connections(self.port)


class OurControllers:
    """Controllers of ours on real sockets, in a loop of their own."""

    def __init__(self, path: Path) -> None:
        self.quorums: dict[int, RaftQuorum] = {}
        self._path = path
        self._ports = {1: free_port(), 3: free_port()}
        self._servers: dict[int, Server] = {}
        self._runtime = real_runtime()
        self._thread = LoopThread("our-controllers")

    @property
    def bootstrap(self) -> str:
        """Where the quorum is found."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, node_id: int) -> None:
        """Start one; the first is formatted as the only voter, the other one asks to join."""
        self._thread.run(self._start(node_id))

    def stop(self, node_id: int) -> None:
        """Stop one."""
        self._thread.run(self._stop(node_id))

    def move(self, node_id: int) -> None:
        """Start one again on another port."""
        self.stop(node_id)
        self._ports[node_id] = free_port()
        self.start(node_id)

    def is_where_all_know(self, node_id: int) -> bool:
        """Whether the voter records of all have the port of a controller."""
        known = {quorum.core.voters.endpoints_of(node_id)[0].port for quorum in self.quorums.values()}
        return known == {self._ports[node_id]}

    def close(self) -> None:
        """Stop all."""
        for node_id in list(self.quorums):
            self.stop(node_id)
        self._thread.close()
        self._runtime.threads.close()

    def create_topics(self, *numbers: int) -> None:
        """Create topics on the one that is active."""

        async def create(quorum: RaftQuorum) -> None:
            for number in numbers:
                await quorum.append(new_topic(f"t{number}", number))

        wait_until(self._active, "one of ours is active", timeout_s=PATIENCE_SECONDS)
        self._thread.run(create(self._active()[0]))

    def snapshot(self, node_id: int) -> None:
        """Write a snapshot."""
        self._thread.run(self.quorums[node_id].snapshot())

    def voters(self) -> list[list[int]]:
        """The voters as each of them knows them."""
        return [[node.voter_id for node in quorum.voters] for quorum in self.quorums.values()]

    def _active(self) -> list[RaftQuorum]:
        return [quorum for quorum in self.quorums.values() if quorum.is_active]

    async def _start(self, node_id: int) -> None:
        directory = str(self._path / str(node_id))
        directory_id = UUID(int=(77 << 64) + node_id)
        endpoint = VoterEndpoint("CONTROLLER", "127.0.0.1", self._ports[node_id])
        if not self._runtime.fs.exists(directory):
            plan = FormatPlan(
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                log_dirs=[directory],
                metadata_dir=directory,
                directory_ids={directory: directory_id},
                voters=(VoterNode(1, directory_id, (endpoint,)),) if node_id == 1 else (),
            )
            write_format(self._runtime.fs, plan, now_ms=self._runtime.clock.now_ms())
        known = tuple(VoterEndpoint("CONTROLLER", "127.0.0.1", port) for port in self._ports.values())
        options = QuorumOptions(endpoints=(endpoint,), bootstrap=known, auto_join=True)
        quorum = self.quorums[node_id] = await RaftQuorum.open(self._runtime, directory, node_id, options)

        def answer(_info: ConnectionInfo, frame: memoryview) -> Any:
            return dispatch(quorum, frame)

        server = self._servers[node_id] = Server(
            self._runtime.network, answer, ConnectionLimits(max_idle_ms=-1), "CONTROLLER"
        )
        await server.listen("127.0.0.1", endpoint.port)

    async def _stop(self, node_id: int) -> None:
        await self.quorums.pop(node_id).close()
        await self._servers.pop(node_id).close(grace_ms=100)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurControllers]:
    require_jvm()
    controllers = OurControllers(tmp_path / "ours")
    yield controllers
    controllers.close()


def test_a_controller_of_kafka_joins_leads_and_hands_over(ours: OurControllers, tmp_path: Path) -> None:
    ours.start(1)
    ours.create_topics(*range(20))
    ours.snapshot(1)
    ours.create_topics(20)
    with JvmController(tmp_path / "jvm", ours.bootstrap) as jvm:
        wait_until(lambda: ours.voters() == [[1, JVM_ID]], "Kafka joins", timeout_s=PATIENCE_SECONDS)
        # A leader that moved says so in the log, which needs Kafka to be committed.
        ours.move(1)
        ours.create_topics(21)
        assert ours.is_where_all_know(1)
        # A node that returns has to wait longer for an election than the one that stayed.
        while ours.quorums[1].leader.leader_id != JVM_ID:
            ours.stop(1)
            ours.start(1)
            wait_until(lambda: ours.quorums[1].leader.leader_id, "there is a leader", timeout_s=PATIENCE_SECONDS)
        ours.start(3)
        everybody = [[1, JVM_ID, 3]] * 2
        wait_until(lambda: ours.voters() == everybody, "Kafka takes ours in", timeout_s=PATIENCE_SECONDS)
        ours.move(3)
        wait_until(lambda: ours.is_where_all_know(3), "Kafka notes the new port", timeout_s=PATIENCE_SECONDS)
        # What Kafka writes as leader is applied.
        offset = ours.quorums[3].image.offset
        wait_until(lambda: ours.quorums[3].image.offset > offset + 2, "Kafka writes", timeout_s=PATIENCE_SECONDS)
        assert jvm.stop() == 143
        ours.create_topics(22)
        for quorum in ours.quorums.values():
            wait_until(lambda: "t22" in quorum.image.topics.by_name, "the last topic is everywhere")  # noqa: B023
            assert quorum.failure is None
            assert set(quorum.image.topics.by_name) == {f"t{number}" for number in range(23)}
