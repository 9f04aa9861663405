"""Three replicas of the metadata quorum, real driver and log, over a simulated network and disks."""

from __future__ import annotations

import asyncio
import random
from typing import ClassVar
from uuid import UUID

import pytest

from crabka.clients.cluster.connection import Connection
from crabka.errors import CrabkaError, OperationError
from crabka.kraft.messages import AddVoterRequest, RemoveVoterRequest
from crabka.kraft.voters import VoterEndpoint
from crabka.ports import Network
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.loading import load_read_only
from crabka.quorum.log.metadata_log import LogFlush
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.sender import NetworkDialer
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.kraft_sim import planted
from tests.support.quorum.node import DIRECTORY, new_topic
from tests.support.quorum.raft_cluster import PORT, SETTINGS, RaftCluster, RaftReplica, host_of, run_cluster, voter
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN
from tests.support.scale import scaled


@run_with(lambda test, rng: run_cluster(rng, test, observers=1))
async def test_a_quorum_elects_a_leader_and_all_replicas_get_the_same_image(cluster: RaftCluster, /) -> None:
    assert await cluster.create_topics(100) == 100
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_the_death_of_the_leader_costs_no_acknowledged_change(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(30)
    leader = await cluster.wait_active()
    died_at = cluster.loop.time()
    await leader.crash()
    await cluster.wait_active()
    # The ports of a dead process refuse: the fetch time-out of two seconds is not needed.
    assert cluster.loop.time() - died_at < 1.5
    await cluster.create_topics(30)
    await leader.start()
    await cluster.settle()
    cluster.check()


async def cut_all_power(cluster: RaftCluster) -> None:
    """Create topics, lose all machines at once, start them again and look for the topics."""
    await cluster.create_topics(30)
    for replica in cluster.replicas.values():
        await replica.crash(power=True, harsh=True)
    for replica in cluster.replicas.values():
        await replica.start()
    await cluster.settle()
    cluster.check()


def test_a_power_cut_of_all_machines_loses_no_acknowledged_change(rng: random.Random) -> None:
    run_cluster(rng, cut_all_power)


def test_a_sync_that_is_left_out_is_noticed(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFlush, "run", lambda flush: flush.end_offset)
    with pytest.raises(AssertionError, match="lost"):
        run_cluster(rng, cut_all_power)


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_a_leader_that_stops_hands_over_at_once(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    started_at = cluster.loop.time()
    await leader.stop()
    await cluster.wait_active()
    assert cluster.loop.time() - started_at < 0.5
    assert leader.active_epochs == [1]
    await leader.start()
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_a_deposed_leader_fails_those_who_wait(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    assert leader.quorum is not None
    cluster.network.isolate(host_of(leader.node_id))
    waiting = leader.quorum.append(new_topic("lost", 5000))
    with pytest.raises(OperationError) as caught:
        await waiting
    assert caught.value.error_code is ErrorCode.not_controller
    await cluster.create_topics(5)
    cluster.network.heal_all()
    await cluster.settle()
    cluster.check()
    assert "lost" not in leader.quorum.image.topics.by_name


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_a_replica_that_is_far_behind_fetches_a_snapshot(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(10)
    leader = await cluster.wait_active()
    behind = next(replica for replica in cluster.running if replica is not leader)
    await behind.stop()
    await cluster.create_topics(60)
    for replica in cluster.running:
        assert replica.quorum is not None
        await replica.quorum.snapshot()
        await cluster.create_topics(20)
        await replica.quorum.snapshot()
    await behind.start()
    await cluster.settle()
    cluster.check()
    assert leader.requests[ApiKey.FETCH_SNAPSHOT] > 0
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_an_idle_quorum_fetches_a_few_times_a_second(cluster: RaftCluster, /) -> None:
    leader = await cluster.wait_active()
    await cluster.settle()
    before = leader.requests.copy()
    await asyncio.sleep(10)
    # A fetch waits half a second; followers fetch again at once.
    assert 30 <= leader.requests[ApiKey.FETCH] - before[ApiKey.FETCH] <= 44
    assert (leader.requests - before).total() - (leader.requests[ApiKey.FETCH] - before[ApiKey.FETCH]) <= 2


@run_with(lambda test, rng: run_cluster(rng, test, observers=1))
async def test_voters_are_added_and_removed(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(10)
    await cluster.settle()
    leader = await cluster.wait_active()
    assert leader.quorum is not None
    new = voter(4)
    added = await leader.quorum.ask(
        AddVoterRequest(cluster_id="cluster", voter=new.key, endpoints=new.endpoints, timeout_ms=5000)
    )
    assert added.error is ErrorCode.none, added
    removed = await leader.quorum.ask(
        RemoveVoterRequest(cluster_id="cluster", voter=voter(leader.node_id).key, timeout_ms=5000)
    )
    assert removed.error is ErrorCode.none, removed
    expected = {1, 2, 3, 4} - {leader.node_id}
    # A removed leader hands over; the next one leads without it.
    await cluster.wait(lambda: not (leader.quorum and leader.quorum.is_active))
    successor = await cluster.wait_active()
    assert successor is not leader
    await cluster.create_topics(10)
    await cluster.settle()
    assert all(
        {node.voter_id for node in replica.quorum.voters} == expected for replica in cluster.running if replica.quorum
    )
    assert successor.quorum is not None
    described = await successor.quorum.describe()
    assert {voter.key.node_id for voter in described.voters} == expected
    assert [observer.key.node_id for observer in described.observers] == [leader.node_id]
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test, voters=1, observers=2, auto_join=True))
async def test_controllers_join_by_themselves(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    await cluster.wait(lambda: cluster.everybody_knows(voter(1), voter(2), voter(3)))
    # A voter that joined counts: the quorum lives on without the first of them.
    await cluster.replicas[1].crash()
    await cluster.create_topics(5)
    await cluster.replicas[1].start()
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test, auto_join=True))
async def test_a_controller_with_a_new_disk_takes_its_old_place(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    victim = next(replica for replica in cluster.running if replica is not leader)
    await victim.crash()
    victim.replace_disk(UUID(int=77))
    await victim.start()
    reborn = voter(victim.node_id, directory_id=UUID(int=77))
    expected = [reborn if node_id == victim.node_id else voter(node_id) for node_id in (1, 2, 3)]
    await cluster.wait(lambda: cluster.everybody_knows(*expected))
    await leader.stop()
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_voters_that_come_back_on_other_ports_report_it(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    moved = {node_id: voter(node_id) for node_id in cluster.replicas}
    for node_id, replica in cluster.replicas.items():
        await replica.stop()
        await cluster.create_topics(3)
        replica.move(PORT + node_id)
        moved[node_id] = voter(node_id, port=PORT + node_id)
        await replica.start()
        await cluster.wait(lambda: cluster.everybody_knows(*moved.values()))
    await cluster.stop()
    for replica in cluster.replicas.values():
        replica.options = replica.options._replace(bootstrap=())
    await cluster.start()
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()


@run_with(lambda test, rng: run_cluster(rng, test, observers=1))
async def test_a_broker_has_caught_up_when_it_has_what_was_committed_before_it_came(cluster: RaftCluster, /) -> None:
    broker = cluster.replicas[4]
    await cluster.create_topics(5)
    await broker.stop()
    await cluster.create_topics(50)
    quorum = await broker.start()
    assert len(quorum.image.topics.by_name) < 55
    await quorum.wait_caught_up()
    assert len(quorum.image.topics.by_name) == 55
    leader = await cluster.wait_active()
    assert leader.quorum is not None
    assert quorum.leader == leader.quorum.leader
    assert quorum.leader.endpoints == voter(leader.node_id).endpoints


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_a_cluster_that_stops_as_a_whole_takes_no_time(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    started_at = cluster.loop.time()
    await asyncio.gather(*(replica.stop() for replica in cluster.replicas.values()))
    assert cluster.loop.time() - started_at < 0.5


class PortDialer:
    """Finds the golden controllers, which all listen on one host, on their machines."""

    HOSTS: ClassVar = {27193: host_of(1), 27293: host_of(2), 27393: host_of(3)}

    def __init__(self, network: Network) -> None:
        self._plain = NetworkDialer(network, "golden")

    async def dial(self, endpoint: VoterEndpoint, timeout_ms: int) -> Connection:
        return await self._plain.dial(VoterEndpoint("", self.HOSTS[endpoint.port], PORT), timeout_ms)


def test_two_of_kafkas_controllers_and_its_broker_go_on_where_they_stopped(rng: random.Random) -> None:
    golden = GOLDEN / "quorum"
    expected = load_read_only(copy_to_memory(golden / "c1", "/m"), "/m/__cluster_metadata-0").replay.image
    loop = VirtualTimeLoop()

    async def main() -> None:
        cluster = RaftCluster(loop, rng, voters=3)
        del cluster.replicas[2]
        cluster.replicas[10] = RaftReplica(cluster, 10, QuorumOptions())
        for node_id, replica in cluster.replicas.items():
            replica.fs = copy_to_memory(golden / ("b10" if node_id == 10 else f"c{node_id}"), DIRECTORY)
            dialer = PortDialer(cluster.network.host(host_of(node_id)))
            replica.options = QuorumOptions(log=SETTINGS, dialer=dialer)
        await cluster.start()
        try:
            leader = await cluster.wait_active()
            assert leader.quorum is not None
            assert leader.quorum.leader_epoch > expected.epoch
            assert leader.quorum.kraft_version == 1
            for part in ("features", "cluster", "topics", "configs", "acls", "producer_ids"):
                assert getattr(leader.quorum.image, part) == getattr(expected, part)
            await cluster.create_topics(3)
            await cluster.settle()
            cluster.check()
        finally:
            await cluster.stop()

    loop.run(main())


@pytest.mark.parametrize("run", range(scaled(4, 200)))
@run_with(lambda test, rng, run: run_cluster(rng, test, observers=run % 2))
async def test_changes_survive_kills_partitions_and_power_cuts(cluster: RaftCluster, /) -> None:
    work = asyncio.ensure_future(cluster.create_topics(100, pause_s=0.1))
    while not work.done():
        await asyncio.sleep(cluster.rng.uniform(0.02, 0.5))
        await disturb(cluster)
    await work
    cluster.network.heal_all()
    for replica in cluster.replicas.values():
        if replica.quorum is None:
            await replica.start()
    await cluster.settle()
    cluster.check()


async def disturb(cluster: RaftCluster) -> None:
    """Do one thing to the cluster; at most one voter is down or cut off at a time."""
    down = [replica for replica in cluster.replicas.values() if replica.quorum is None]
    if down:
        await down[0].start()
        return
    if cluster.network.blocked:
        cluster.network.heal_all()
        return
    victim = cluster.replicas[cluster.rng.choice(sorted(cluster.replicas))]
    if cluster.rng.random() < 0.5:
        victim = cluster.maybe_active() or victim
    match cluster.rng.randrange(5):
        case 0:
            await victim.crash(power=True)
        case 1:
            await victim.crash(power=False)
        case 2:
            cluster.network.isolate(host_of(victim.node_id))
        case 3 if victim.quorum is not None:
            await victim.quorum.snapshot()
        case _:
            await victim.stop()


def rot(replica: RaftReplica, rng: random.Random) -> None:
    """Flip a byte somewhere in the metadata log of a replica that does not run."""
    directory = f"{DIRECTORY}/__cluster_metadata-0"
    paths = [f"{directory}/{name}" for name in replica.fs.listdir(directory) if name.endswith(".log")]
    path = rng.choice([path for path in paths if replica.fs.stat(path).size_bytes])
    file = replica.fs.open(path)
    position = rng.randrange(file.size())
    file.pwritev([bytes([file.pread(1, position)[0] ^ (1 << rng.randrange(8))])], position)
    file.fsync()
    file.close()


async def rot_beside_a_voter_that_is_down(cluster: RaftCluster) -> None:
    """A voter misses committed topics; meanwhile the disk of another one loses some of them, and the rest restarts."""
    await cluster.create_topics(10)
    leader = await cluster.wait_active()
    away, rotten = cluster.rng.sample([each for each in cluster.running if each is not leader], 2)
    await away.stop()
    await cluster.create_topics(20)
    await cluster.settle()
    await rotten.crash(power=False)
    await leader.crash(power=False)
    rot(rotten, cluster.rng)
    # The two that are left without the leader must not agree on a history without what was acknowledged.
    await away.start()
    await rotten.start()
    await asyncio.sleep(4)
    await leader.start()
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()
    await cluster.wait(
        lambda: all(each.quorum is not None and each.quorum.core.lost_end is None for each in cluster.running)
    )


@pytest.mark.parametrize("number", range(scaled(3, 100)))
def test_rot_in_one_voter_while_another_is_down_loses_no_acknowledged_change(rng: random.Random, number: int) -> None:
    run_cluster(random.Random(rng.random() + number), rot_beside_a_voter_that_is_down)


def test_a_voter_that_ignores_what_it_lost_is_noticed(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.ignore_the_durable_end(monkeypatch)
    for number in range(10):
        try:
            run_cluster(random.Random(rng.random() + number), rot_beside_a_voter_that_is_down)
        except (AssertionError, CrabkaError, TimeoutError) as error:
            print(f"found in run {number}: {error!r}")
            return
    pytest.fail("ten runs did not show that a voter ignores what it lost")
