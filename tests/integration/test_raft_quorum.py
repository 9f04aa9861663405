"""Three replicas of the metadata quorum on real sockets, threads and files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.net import ConnectionLimits, Dispatch, Server
from crabka.ports import Runtime
from crabka.quorum.formatting import FormatPlan, write_format
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.settings import MetadataLogSettings
from crabka.runtime.real import real_runtime
from tests.support.quorum.node import new_topic
from tests.support.quorum.raft_cluster import dispatch

PATIENCE_SECONDS = 120
OPTIONS = QuorumOptions(
    log=MetadataLogSettings(max_idle_interval_ms=0), kraft=KraftSettings(election_timeout_ms=300, fetch_timeout_ms=600)
)


class Controllers:
    """Controllers 1 to 3; those that run are in `quorums`."""

    def __init__(self, runtime: Runtime, path: Path) -> None:
        self.quorums: dict[int, RaftQuorum] = {}
        self._runtime = runtime
        self._path = path
        self._servers: dict[int, Server] = {}

    async def start(self) -> None:
        voters: list[VoterNode] = []
        for node_id in (1, 2, 3):
            server = Server(
                self._runtime.network,
                self._dispatch_to(node_id),
                ConnectionLimits(max_idle_ms=-1),
                "CONTROLLER",
            )
            listener = await server.listen("127.0.0.1", 0)
            self._servers[node_id] = server
            endpoint = VoterEndpoint("CONTROLLER", "127.0.0.1", listener.port)
            voters.append(VoterNode(node_id, UUID(int=node_id), (endpoint,)))
        for node_id in self._servers:
            directory = str(self._path / str(node_id))
            plan = FormatPlan(
                cluster_id="cluster",
                node_id=node_id,
                log_dirs=[directory],
                metadata_dir=directory,
                directory_ids={directory: UUID(int=node_id)},
                voters=tuple(voters),
            )
            write_format(self._runtime.fs, plan, now_ms=self._runtime.clock.now_ms())
        for node_id in self._servers:
            self.quorums[node_id] = await RaftQuorum.open(
                self._runtime, str(self._path / str(node_id)), node_id, OPTIONS
            )

    def _dispatch_to(self, node_id: int) -> Dispatch:
        return lambda _info, frame: dispatch(self.quorums[node_id], frame)

    async def stop(self, node_id: int) -> None:
        await self.quorums[node_id].close()
        await self._servers.pop(node_id).close(grace_ms=100)
        del self.quorums[node_id]

    async def active(self) -> RaftQuorum:
        while True:
            for quorum in self.quorums.values():
                assert quorum.failure is None
                if quorum.is_active:
                    return quorum
            await asyncio.sleep(0.01)


def test_changes_are_replicated_and_survive_a_change_of_leader(tmp_path: Path) -> None:
    runtime = real_runtime(seed=1)

    async def main() -> None:
        controllers = Controllers(runtime, tmp_path)
        await controllers.start()
        leader = await controllers.active()
        await asyncio.gather(*(leader.append(new_topic(f"a{number}", number)) for number in range(20)))
        await leader.snapshot()
        await controllers.stop(next(node_id for node_id, quorum in controllers.quorums.items() if quorum is leader))
        successor = await controllers.active()
        for number in range(5):
            await successor.append(new_topic(f"b{number}", 100 + number))
        (other,) = [quorum for quorum in controllers.quorums.values() if quorum is not successor]
        while other.image != successor.image:
            await asyncio.sleep(0.01)
        assert len(successor.image.topics.by_name) == 25
        for node_id in list(controllers.quorums):
            await controllers.stop(node_id)

    try:
        asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    finally:
        runtime.threads.close()
