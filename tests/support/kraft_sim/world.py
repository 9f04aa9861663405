"""A quorum in a world of faults: discrete events in virtual time, everything decided by one seed.

The first part of a run is full of crashes, partitions, lost messages, snapshots, client records and changes of
voters; then the world heals, and the quorum must commit a last record on every replica in bounded time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from uuid import UUID

from crabka.errors import InvariantError
from crabka.kraft.events import Event, TimePassed
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import Response
from crabka.kraft.voters import VoterEndpoint, VoterNode, VoterSet, without_directory_ids
from tests.support.kraft_sim.checks import CONSISTENT, LIVENESS, BrokenQuorumError, QuorumChecks
from tests.support.kraft_sim.disk import SimulatedDisk, SnapshotFile
from tests.support.kraft_sim.faults import Faults
from tests.support.kraft_sim.network import SimulatedLinks
from tests.support.kraft_sim.replica import SETTINGS, SimulatedReplica
from tests.support.kraft_sim.trace import QuorumTrace

STORM_MS = 3_000.0
# Far more than an election and a snapshot take with these time-outs.
CALM_MS = 6_000.0
MAX_STEPS = 60_000


class KraftWorld:
    """All replicas, the network between them, and the time."""

    def __init__(self, seed: int, listener: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ms = 0.0
        self.steps = 0
        self.trace = QuorumTrace(lambda: self.now_ms, listener)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._timers: dict[int, tuple[int, float]] = {}
        self.snapshots: dict[OffsetAndEpoch, SnapshotFile] = {}
        self.is_calm = False
        # A vote is the one thing that only quorum-state remembers. In some worlds voters die right after it and come
        # back at once, while short election time-outs make candidates collide.
        self.deaths_after_vote = self.rng.choice([0.0, 0.0, 0.0, 0.4])
        hasty = self.deaths_after_vote > 0
        self.settings = replace(SETTINGS, election_timeout_ms=self.rng.choice([100, 100, 25]) if not hasty else 15)
        self._longest_restart_ms = self.rng.choice([20, 300, 600]) if not hasty else 12
        # How many entries a fetch brings: one by one, commits happen at every place in the log.
        self.fetched_entries = self.rng.choice([1, 6])
        self.hosts_move = self.rng.random() < 0.3
        # In every tenth world controllers join by themselves, also after they were removed.
        self.auto_join = seed % 10 == 9
        # In two of ten worlds disks lose what was durable, in others a stranger sends wild numbers.
        self.has_rot = seed % 10 in (0, 6)
        self.has_liars = seed % 10 in (6, 7)
        if self.has_liars:
            limits = {"request_epochs": 60, "request_epochs_window_ms": 1_500, "response_epochs": 4_000}
            self.settings = replace(self.settings, **limits)
        self.network = SimulatedLinks(self)
        voter_count = self.rng.choice([3, 3, 3, 5])
        self.level = self.rng.choice([1, 1, 1, 0])
        self._first_ids = range(1, voter_count + 1)
        observer_ids = range(101, 101 + self.rng.choice([1, 2]))
        # Any node may be the last voter that is left.
        self.bootstrap_ids = [*self._first_ids, *observer_ids]
        voters = VoterSet(tuple(self.voter_node(node_id, 0) for node_id in self._first_ids))
        self.first_voters = voters if self.level else without_directory_ids(voters)
        self.checks = QuorumChecks(self.first_voters)
        self.replicas: dict[int, SimulatedReplica] = {}
        for node in voters.nodes:
            self.add_replica(node)
        for node_id in observer_ids:
            self.add_replica(self.voter_node(node_id, 0))
        self.faults = Faults(self)

    @property
    def replica_list(self) -> list[SimulatedReplica]:
        """All replicas."""
        return list(self.replicas.values())

    def voter_node(self, node_id: int, generation: int) -> VoterNode:
        """Return the identity of a node; each new disk has a new directory id."""
        return VoterNode(node_id, UUID(int=node_id * 1000 + generation + 1), (self.endpoint(node_id),))

    def endpoint(self, node_id: int) -> VoterEndpoint:
        """Return where a node listens; the port tells its id to the network."""
        return VoterEndpoint("CONTROLLER", f"node-{node_id}", node_id)

    def add_replica(self, node: VoterNode) -> SimulatedReplica:
        """Start a replica with an empty disk; observers learn of the voters from the log."""
        is_first = node.voter_id in self._first_ids and node.directory_id.int % 1000 == 1
        voters = self.first_voters if is_first or self.level == 0 else VoterSet()
        disk = SimulatedDisk(first_voters=voters, first_kraft_version=self.level if is_first else 0)
        replica = SimulatedReplica(self, node, disk)
        self.replicas[node.voter_id] = replica
        self.start(replica)
        return replica

    def start(self, replica: SimulatedReplica) -> None:
        """Start a process that does not run."""
        if replica.is_running or self.replicas.get(replica.key.node_id) is not replica:
            return
        replica.start()
        self.trace.note(f"{replica.key} starts at {replica.disk.log.end_offset}")
        replica.run(TimePassed())

    def restart_later(self, replica: SimulatedReplica) -> None:
        """Start a dead replica again some time later."""
        self.later(self.rng.uniform(1, 20 if self.is_calm else self._longest_restart_ms), lambda: self.start(replica))

    def later(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Do something after some time."""
        heapq.heappush(self._heap, (self.now_ms + delay_ms, next(self._order), call))

    def set_timer(self, replica: SimulatedReplica, due_ms: float) -> None:
        """Wake a replica at its next deadline; an older timer is void."""
        node_id = replica.key.node_id
        timer = (replica.incarnation, due_ms)
        if self._timers.get(node_id) == timer:
            return
        self._timers[node_id] = timer

        def wake() -> None:
            if self._timers.get(node_id) == timer:
                del self._timers[node_id]
                self.deliver(node_id, TimePassed(), incarnation=timer[0])

        self.later(max(0.0, due_ms - self.now_ms), wake)

    def deliver(self, node_id: int, event: Event, *, incarnation: int | None = None) -> None:
        """Give an event to a replica if it runs (and is the process that waits for it)."""
        replica = self.replicas.get(node_id)
        if replica is None or not replica.is_running or incarnation not in (None, replica.incarnation):
            return
        if replica.paused_until_ms > self.now_ms:
            started = replica.incarnation
            self.later(replica.paused_until_ms - self.now_ms, lambda: self.deliver(node_id, event, incarnation=started))
            return
        replica.run(event)

    def snapshot_file(self, snapshot: OffsetAndEpoch, file: SnapshotFile) -> SnapshotFile:
        """Note a snapshot: two of one id have the same content."""
        known = self.snapshots.setdefault(snapshot, file)
        if known != file:
            raise BrokenQuorumError(CONSISTENT, f"two snapshots {snapshot} differ: {known} and {file}")
        return known

    def client_answered(self, token: object, response: Response) -> None:
        """An operator's request has an answer."""
        self.trace.note(f"{token}: {getattr(response, 'error', None)!s} {getattr(response, 'message', '')}")

    def run(self) -> None:
        """Live through the storm and the calm after it. Raises BrokenQuorumError."""
        try:
            self.faults.begin()
            self._run_until(STORM_MS)
            self.is_calm = True
            self.deaths_after_vote = 0.0
            self.faults.heal()
            self._calm()
        except InvariantError as error:
            raise BrokenQuorumError(CONSISTENT, str(error)) from error

    def _run_until(self, end_ms: float, done: Callable[[], bool] | None = None) -> bool:
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, call = heapq.heappop(self._heap)
            call()
            if self.steps > MAX_STEPS:
                raise BrokenQuorumError(LIVENESS, f"{self.steps} steps: the quorum is busy with nothing")
            if done is not None and done():
                return True
        self.now_ms = end_ms
        return False

    def _calm(self) -> None:
        marker = self.faults.next_value()
        end_ms = self.now_ms + CALM_MS
        while self.now_ms < end_ms:
            for replica in self.replica_list:
                self.start(replica)
                replica.append_data([marker])
            if self._run_until(min(end_ms, self.now_ms + 100), lambda: self._everybody_has(marker)):
                return
        state = [
            f"{replica.key} {replica.core and replica.core.role}@{replica.high_watermark}"
            for replica in self.replica_list
        ]
        raise BrokenQuorumError(LIVENESS, f"no record is committed everywhere: {state}")

    def _everybody_has(self, marker: int) -> bool:
        committed = self.checks.committed
        if not committed or committed[-1].payload != marker:
            return False
        return all(replica.high_watermark == len(committed) for replica in self.replica_list)


def run_world(seed: int, listener: Callable[[str], None] | None = None) -> KraftWorld:
    """Run one seed. Raises BrokenQuorumError with the end of its story."""
    world = KraftWorld(seed, listener)
    try:
        world.run()
    except BrokenQuorumError as error:
        error.add_note(f"seed {seed}: python -m tests.support.kraft_sim --seed {seed}\n" + "\n".join(world.trace.lines))
        raise
    return world
