"""What goes wrong and what people ask for during the storm."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.events import RequestReceived, ResignRequested
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeRequest,
    EndQuorumEpochRequest,
    MetadataFetchRequest,
    RemoveVoterRequest,
    Request,
    UpgradeRequest,
    VoteRequest,
)
from crabka.kraft.voters import ReplicaKey
from tests.support.kraft_sim.replica import CLUSTER_ID

if TYPE_CHECKING:
    from tests.support.kraft_sim.replica import SimulatedReplica
    from tests.support.kraft_sim.world import KraftWorld

CHANGE_TIMEOUT_MS = 400
# After an attempt to add a node its disk stays for a while: a voter that loses its disk is outside the model.
DISK_SAFE_AFTER_MS = 1_500


class Faults:
    """A stream of random deeds until the world heals."""

    def __init__(self, world: KraftWorld) -> None:
        self._world = world
        self._values = 0
        self._disk_generation = 0
        self._asked_to_add: dict[int, float] = {}
        self._is_over = False
        # How many replicas lacked durable entries at the same time.
        self.most_rotten = 0
        # A generator of its own: worlds without rot and liars stay what they were.
        self._ill_luck = random.Random(f"ill luck {world.seed}")
        rng = world.rng
        # Every run has its own weather.
        self._pace_ms = rng.choice([15, 30, 60])
        self._deeds: list[tuple[Callable[[], None], float]] = [
            (self._append, 8),
            (self._crash, rng.choice([0, 1, 3])),
            (self._die_at_work, rng.choice([0, 1, 3])),
            (self._crash_leader, rng.choice([0, 1])),
            (self._partition, rng.choice([0, 1, 2])),
            (self._isolate_leaders, rng.choice([0, 1, 3])),
            (self._reconnect, 1),
            (self._pause, rng.choice([0, 1])),
            (self._snapshot, rng.choice([0, 1, 3, 6])),
            (self._change_voters, rng.choice([0, 2, 4])),
            (self._resign, rng.choice([0, 0.3])),
            # Where controllers join by themselves any of them may be about to be a voter.
            (self._replace_disk, rng.choice([0, 0.5]) * (not world.auto_join)),
            (self._ask_upgrade, 2 if world.level == 0 else 0),
        ]
        if world.has_rot:
            self._deeds += [(self._rot, 2), (self._rot_leader, 1)]
        if world.has_liars:
            self._deeds.append((self._lie, 4))

    def begin(self) -> None:
        """Start the storm."""
        rng, network = self._world.rng, self._world.network
        network.loss = rng.choice([0, 0, 0.02, 0.1])
        network.doubling = rng.choice([0, 0.1])
        network.max_delay_ms = rng.choice([2, 5, 20, 60])
        self._next()

    def heal(self) -> None:
        """End the storm: no more faults, every link works; dead replicas are started by the world."""
        self._is_over = True
        network = self._world.network
        network.cut.clear()
        network.loss = network.doubling = 0.0
        network.max_delay_ms = 4.0
        for replica in self._world.replica_list:
            replica.paused_until_ms = 0.0
        self._world.trace.note("the world heals")

    def next_value(self) -> int:
        """Return a record that no client wrote before."""
        self._values += 1
        return self._values

    def _next(self) -> None:
        if self._is_over:
            return
        deeds, weights = zip(*self._deeds, strict=True)
        self._world.rng.choices(deeds, weights)[0]()
        self._world.later(self._world.rng.expovariate(1 / self._pace_ms), self._next)

    def _append(self) -> None:
        for replica in self._leaders():
            replica.append_data([self.next_value() for _ in range(self._world.rng.randint(1, 4))])

    def _crash(self) -> None:
        self._kill(self._world.rng.choice(self._world.replica_list))

    def _crash_leader(self) -> None:
        for replica in self._leaders():
            self._kill(replica)

    def _kill(self, replica: SimulatedReplica) -> None:
        if replica.is_running:
            replica.crash()
            self._world.trace.note(f"{replica.key} is killed, keeps {replica.disk.log.end_offset}")
            self._world.restart_later(replica)

    def _die_at_work(self) -> None:
        replica = self._world.rng.choice(self._world.replica_list)
        if replica.is_running:
            replica.dies_in = self._world.rng.randrange(12)

    def _pause(self) -> None:
        replica = self._world.rng.choice(self._world.replica_list)
        replica.paused_until_ms = self._world.now_ms + self._world.rng.uniform(20, 500)
        self._world.trace.note(f"{replica.key} stands still until {replica.paused_until_ms:.0f}")

    def _partition(self) -> None:
        world = self._world
        ids = list(world.replicas)
        some = set(world.rng.sample(ids, world.rng.randint(1, len(ids) - 1)))
        pairs = {(a, b) for a in some for b in ids if b not in some}
        both_ways = world.rng.random() < 0.7
        world.network.cut = pairs | ({(b, a) for a, b in pairs} if both_ways else set())
        world.trace.note(f"{sorted(some)} cut off{'' if both_ways else ' one way'}")

    def _isolate_leaders(self) -> None:
        """A node that believes to lead is cut off, with what clients give it."""
        self._append()
        for replica in self._leaders():
            node_id = replica.key.node_id
            others = [other for other in self._world.replicas if other != node_id]
            self._world.network.cut |= {(node_id, other) for other in others} | {(other, node_id) for other in others}
            self._world.trace.note(f"{replica.key} is cut off")
        self._append()

    def _reconnect(self) -> None:
        self._world.network.cut.clear()
        self._world.trace.note("all links work")

    def _snapshot(self) -> None:
        rng = self._world.rng
        rng.choice(self._world.replica_list).take_snapshot(prune=rng.random() < 0.7)

    def _change_voters(self) -> None:
        world = self._world
        leaders = self._leaders()
        if not leaders:
            return
        leader = world.rng.choice(leaders)
        assert leader.core is not None
        replica = world.rng.choice(world.replica_list)
        request: Request
        if leader.core.voters.is_voter(replica.key):
            if any(other.has_lost_entries for other in world.replica_list):
                # It could leave a set of two of which one waits for what it lost: no operator does that.
                return
            request = RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=replica.key, timeout_ms=CHANGE_TIMEOUT_MS)
        else:
            self._asked_to_add[replica.key.node_id] = world.now_ms
            request = AddVoterRequest(
                cluster_id=CLUSTER_ID,
                voter=replica.key,
                endpoints=replica.node.endpoints,
                timeout_ms=CHANGE_TIMEOUT_MS,
                ack_when_committed=world.rng.random() < 0.7,
            )
        self._ask(leader, request)

    def _resign(self) -> None:
        for replica in self._leaders():
            if replica.core is not None:
                replica.run(ResignRequested(replica.core.epoch))

    def _ask_upgrade(self) -> None:
        for replica in self._leaders():
            self._ask(replica, UpgradeRequest(kraft_version=1))
            self._ask(replica, DescribeRequest())

    def _ask(self, replica: SimulatedReplica, request: Request) -> None:
        name = type(request).__name__.removesuffix("Request").lower()
        self._world.trace.note(f"{replica.key} is asked to {name} {getattr(request, 'voter', '')!s}")
        replica.run(RequestReceived(f"{name} {getattr(request, 'voter', '')!s}", request))

    def _replace_disk(self) -> None:
        """A node that is no voter, and was not about to be one, comes back with an empty disk."""
        world = self._world
        replica = world.rng.choice(world.replica_list)
        node_id = replica.key.node_id
        if world.now_ms - self._asked_to_add.get(node_id, -DISK_SAFE_AFTER_MS) < DISK_SAFE_AFTER_MS:
            return
        if any(node_id in other.disk.history().voters.ids for other in world.replica_list):
            return
        if replica.is_running:
            replica.crash()
        self._disk_generation += 1
        world.trace.note(f"{replica.key} loses its disk")
        world.add_replica(world.voter_node(node_id, self._disk_generation))

    def _rot(self) -> None:
        self._rot_one(self._ill_luck.choice(self._world.replica_list))

    def _rot_leader(self) -> None:
        """Followers that acknowledged a lot stand in line to be elected."""
        for replica in self._leaders():
            self._kill(replica)
        self._rot()

    def _rot_one(self, replica: SimulatedReplica) -> None:
        """The disk of a replica loses what was durable, as long as most voters of every set are whole."""
        lost = {other.key for other in self._world.replica_list if other.has_lost_entries} | {replica.key}
        for other in self._world.replica_list:
            for voters in other.disk.history().voters_from(0):
                if 2 * sum(voters.is_voter(key) for key in lost) >= len(voters) > 0:
                    return
        self._kill(replica)
        if replica.disk.log.rot(self._ill_luck):
            waiting = sum(other.has_lost_entries for other in self._world.replica_list)
            self.most_rotten = max(self.most_rotten, waiting)
            self._world.trace.note(
                f"{replica.key} has rot, keeps {replica.disk.log.end}, noted {replica.disk.log.note}"
            )

    def _lie(self) -> None:
        """A stranger who is no voter sends numbers that no voter sends."""
        world, luck = self._world, self._ill_luck
        replica = luck.choice(world.replica_list)
        if replica.core is None:
            return
        epoch = luck.choice([MAX_EPOCH, MAX_EPOCH - 1, replica.core.epoch + luck.randint(1, 40)])
        candidate = luck.choice([*(other.key for other in world.replica_list), ReplicaKey(99)])
        wild = luck.choice([0, 5, MAX_EPOCH, 1 << 62, -1])
        requests: list[Request] = [
            VoteRequest(
                cluster_id=None,
                candidate=ReplicaKey(99),
                epoch=epoch,
                last=OffsetAndEpoch(wild, min(wild, 3)),
                pre_vote=luck.random() < 0.3,
            ),
            BeginQuorumEpochRequest(cluster_id=None, leader_id=99, epoch=epoch),
            EndQuorumEpochRequest(cluster_id=None, leader_id=99, epoch=epoch, preferred=(candidate,)),
            MetadataFetchRequest(
                cluster_id=None,
                replica=ReplicaKey(99),
                epoch=epoch,
                fetch_offset=wild,
                last_fetched_epoch=luck.choice([0, epoch]),
            ),
        ]
        self._ask(replica, luck.choice(requests))

    def _leaders(self) -> list[SimulatedReplica]:
        return [replica for replica in self._world.replica_list if replica.core is not None and replica.core.is_leader]
