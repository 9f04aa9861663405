"""Scripted runs instead of random ones: each leads a cluster into one corner, many times."""

from __future__ import annotations

import asyncio
import functools
import itertools

from crabka.broker.transactions.state import ENDING
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.cluster_types import ElectionKind
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.vfs import read_file
from tests.support.cluster_sim.clients import write_carelessly
from tests.support.cluster_sim.layout import LOG_DIRS
from tests.support.cluster_sim.machine import ClusterMachine, Ending
from tests.support.cluster_sim.probe import stored_batches
from tests.support.cluster_sim.world import HEALING_S, ClusterWorld

TOPIC = "safe"
NO_LEADER = -1
# Longer than `replica.lag.time.max.ms` and `broker.session.timeout.ms` of the simulation.
LONG_S = 5.0
ADMIN_TIMEOUT_MS = 3_000
# A byte of the length of a batch, in its header.
LENGTH_POSITION = 10


async def _healthy(world: ClusterWorld) -> None:
    await world.wait(world.is_healthy, HEALING_S, "all replicas are in sync")


async def _work(world: ClusterWorld, seconds: float) -> None:
    await asyncio.sleep(seconds)
    world.raise_failures()


def _move_apart(world: ClusterWorld) -> None:
    brokers = [machine.name for machine in world.machines if machine.spec.is_broker]
    for near, far in itertools.combinations(brokers, 2):
        world.network.set_latency(near, far, low_ms=40, high_ms=60)


def _followers(world: ClusterWorld, topic: str = TOPIC, index: int = 0) -> list[ClusterMachine]:
    partition = world.probe.image.topics.by_name[topic].partitions[index]
    return [world.machine_of(each) for each in partition.replicas if each != partition.leader]


async def kill_leaders(world: ClusterWorld) -> None:
    """Kill one leader after the other while all is well, and let it come back."""
    for number in range(3):
        await _healthy(world)
        await _work(world, 1)
        leader = world.leader_of(TOPIC, number % 2)
        leader.end(Ending.KILL)
        await _work(world, 4)
        leader.start()


async def kill_leaders_far_away(world: ClusterWorld) -> None:
    """Kill leaders of a cluster whose brokers are far from each other: followers know late what is committed."""
    _move_apart(world)
    await kill_leaders(world)


async def kill_active_controllers(world: ClusterWorld) -> None:
    """Kill one active controller after the other while all is well, and let it come back."""
    for _ in range(3):
        await _healthy(world)
        await _work(world, 1)
        active = max(world.probe.active_controllers(), key=lambda each: each.epoch).name
        machine = next(machine for machine in world.machines if machine.name == active)
        machine.end(Ending.KILL)
        await _work(world, 4)
        machine.start()


async def stop_brokers(world: ClusterWorld) -> None:
    """Stop and start every broker, one after the other, as an update does."""
    for machine in [machine for machine in world.machines if machine.spec.is_broker]:
        await _healthy(world)
        await machine.stop(30)
        await _work(world, 1)
        machine.start()


def _is_out_of_sync(world: ClusterWorld, node_id: int) -> bool:
    return node_id not in world.probe.image.topics.by_name[TOPIC].partitions[0].isr


async def fail_disks(world: ClusterWorld) -> None:
    """Let one disk of a leader fail, then one of a follower; each works again after a restart."""
    for number in range(2):
        await _healthy(world)
        machine = world.leader_of(TOPIC) if number == 0 else _followers(world)[0]
        node_id, node = machine.spec.node_id, machine.node
        assert node is not None
        machine.fail_dir(node.context.partitions.by_name(TOPIC, 0).log.log_dir)
        is_out = functools.partial(_is_out_of_sync, world, node_id)
        await world.wait(is_out, HEALING_S, "the replica on the lost disk is out of sync")
        await _work(world, 1)
        # What is lost is not fetched for ever.
        hosted = [each for each in node.context.partitions if each.leader_id not in (node_id, NO_LEADER)]
        assert node.context.fetchers.followed_count == len(hosted)
        assert not node.failed.done()
        await machine.stop(30)
        machine.start()


def _rot_last_batch(machine: ClusterMachine, topic: str, index: int) -> None:
    """Damage the length of the last batch of a replica, which even a start after a clean stop finds."""
    places = [f"{log_dir}/{topic}-{index}" for log_dir in LOG_DIRS]
    (directory,) = [place for place in places if machine.disk.exists(place)]
    last = stored_batches(machine.disk, directory)[-1]
    for name in sorted(machine.disk.listdir(directory)):
        position = read_file(machine.disk, f"{directory}/{name}").rfind(last.data) if name.endswith(".log") else -1
        if position >= 0:
            machine.rot(f"{directory}/{name}", position + LENGTH_POSITION)


async def rot_while_stopped(world: ClusterWorld) -> None:
    """All replicas stop, the leader last; a durable batch of it rots, and it is the first to come back."""
    for _ in range(2):
        await _healthy(world)
        await _work(world, 2)
        leader, followers = world.leader_of(TOPIC), _followers(world)
        for machine in (*followers, leader):
            await machine.stop(30)
            await _work(world, 1)
        _rot_last_batch(leader, TOPIC, 0)
        leader.start()
        await _work(world, LONG_S)
        for machine in reversed(followers):
            machine.start()
            await _work(world, 1)


async def return_late(world: ClusterWorld) -> None:
    """Followers are killed, miss much, and come back to a leader that is busy and far away."""
    _move_apart(world)
    for number in range(3):
        await _healthy(world)
        follower = _followers(world, index=number % 2)[0]
        follower.end(Ending.KILL)
        await _work(world, LONG_S)
        follower.start()
        await _work(world, 3)


async def return_fenced(world: ClusterWorld) -> None:
    """Followers are stopped for longer than their session, and then reach their leaders, but no controller."""
    for number in range(2):
        await _healthy(world)
        follower = _followers(world, index=number % 2)[0]
        follower.pause()
        await _work(world, LONG_S)
        for machine in world.machines:
            if machine.spec.is_controller:
                world.network.partition(follower.name, machine.name)
        follower.resume()
        await _work(world, LONG_S)
        world.network.heal_all()


async def return_from_sleep(world: ClusterWorld) -> None:
    """Followers are stopped for longer than their session, and go on as if nothing had happened."""
    for number in range(4):
        await _healthy(world)
        follower = _followers(world, index=number % 2)[number % 2]
        follower.pause()
        await _work(world, LONG_S)
        follower.resume()
        await _work(world, 2)


async def leave_the_leader_alone(world: ClusterWorld) -> None:
    """Both followers lag behind while the leader takes what it may."""
    for _ in range(2):
        await _healthy(world)
        for follower in _followers(world):
            world.network.partition(world.leader_of(TOPIC).name, follower.name)
        await _work(world, LONG_S)
        await write_carelessly(world.desk, TopicPartition(TOPIC, 0), 30)
        await _work(world, 1)
        world.network.heal_all()


async def return_to_slow_controllers(world: ClusterWorld) -> None:
    """Followers come back while every change of the ISR takes long."""
    _move_apart(world)
    for number in range(4):
        await _healthy(world)
        follower = _followers(world, index=number % 2)[0]
        world.network.set_latency(follower.name, world.leader_of(TOPIC, number % 2).name, low_ms=150, high_ms=200)
        follower.pause()
        await _work(world, LONG_S)
        for machine in world.machines:
            if machine.spec.is_controller and machine is not follower:
                machine.slow_down(600)
        follower.resume()
        await _work(world, 4)
        for machine in world.machines:
            machine.slow_down(None)


async def move_leaders_of_slow_disks(world: ClusterWorld) -> None:
    """Let others lead while followers are far away and appends wait for slow disks: requests end in another epoch."""
    _move_apart(world)
    for _ in range(4):
        await _healthy(world)
        for machine in world.machines:
            if machine.spec.is_broker:
                machine.slow_down(250)
        for _ in range(3):
            await _lead_elsewhere(world)
            await _work(world, 1)
        for machine in world.machines:
            machine.slow_down(None)


async def _lead_elsewhere(world: ClusterWorld) -> None:
    """Let the next replica of each partition lead."""
    partitions = world.probe.image.topics.by_name[TOPIC].partitions
    rotated = {
        TopicPartition(TOPIC, index): [*partition.replicas[1:], partition.replicas[0]]
        for index, partition in partitions.items()
    }
    try:
        async with world.desk.connect() as cluster:
            admin = Admin(cluster, ADMIN_TIMEOUT_MS)
            await admin.replicas.reassign(rotated)
            await admin.replicas.elect_leaders(ElectionKind.PREFERRED, list(rotated))
    except CrabkaError as error:
        world.trace.note(f"leaders stay: {error}")


async def cut_power_of_controllers(world: ClusterWorld) -> None:
    """All controllers lose power at once, and come back."""
    for _ in range(4):
        await _work(world, 2.5)
        controllers = [machine for machine in world.machines if machine.spec.is_controller]
        for machine in controllers:
            machine.end(Ending.POWER)
        await _work(world, 0.3)
        for machine in controllers:
            machine.start()
        await _work(world, 4)


async def cut_power_of_all(world: ClusterWorld) -> None:
    """All brokers lose power at once: every replica may lack records that were committed in memory."""
    for _ in range(2):
        await _healthy(world)
        await _work(world, 3)
        brokers = [machine for machine in world.machines if machine.spec.is_broker]
        for machine in brokers:
            machine.end(Ending.POWER)
        await _work(world, LONG_S)
        for machine in brokers:
            machine.start()
            await _work(world, 1)


async def move_coordinators(world: ClusterWorld) -> None:
    """Kill the coordinator of a decided transaction before all partitions have its markers."""
    _move_apart(world)
    for _ in range(3):
        await world.wait(lambda: _coordinator_of_decided(world) is not None, HEALING_S, "a transaction is decided")
        machine = _coordinator_of_decided(world)
        assert machine is not None
        machine.end(Ending.KILL)
        await _work(world, 3)
        machine.start()
        await _healthy(world)


def _coordinator_of_decided(world: ClusterWorld) -> ClusterMachine | None:
    for machine in world.machines:
        if machine.node is None or not machine.spec.is_broker:
            continue
        for hosted in machine.node.context.transactions.shards:
            for transaction in hosted.shard.transactions.values():
                if transaction.current.state in ENDING:
                    return machine
    return None
