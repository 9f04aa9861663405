"""A simulated replica: a core and its driver over a simulated disk, kept to the letter of the driver's contract."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from crabka.kraft.actions import (
    Action,
    AdvanceHighWatermark,
    AppendControl,
    AppendRecords,
    InstallSnapshot,
    PersistElection,
    Reply,
    RoleChanged,
    Send,
    SettleLoss,
    TruncateLog,
    Warn,
    WriteSnapshotChunk,
)
from crabka.kraft.core import KraftCore, snapshot_content
from crabka.kraft.events import (
    Event,
    LogAppended,
    LogFlushed,
    LogPruned,
    LogTruncated,
    SnapshotInstalled,
    SnapshotRefused,
)
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    FetchSnapshotResponse,
    LogRange,
    MetadataFetchResponse,
    Response,
    SnapshotRange,
    VersionsResponse,
    VoteResponse,
)
from crabka.kraft.settings import KraftSettings, LocalReplica
from crabka.kraft.voters import ReplicaKey, VoterNode
from tests.support.kraft_sim.disk import Entry, SimulatedDisk, SnapshotFile

if TYPE_CHECKING:
    from tests.support.kraft_sim.world import KraftWorld

SETTINGS = KraftSettings(
    election_timeout_ms=100,
    fetch_timeout_ms=200,
    election_backoff_max_ms=100,
    request_timeout_ms=150,
    retry_backoff_ms=10,
    fetch_max_wait_ms=60,
    fetch_max_bytes=24,
)
CLUSTER_ID = "simulated"
SNAPSHOT_BYTES = 60


class CrashError(Exception):
    """The replica dies in the middle of its work."""


class SeededRng:
    """Random numbers of a core in a simulation."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def below(self, bound: int) -> int:
        return int(self._rng.random() * bound)


class SimulatedReplica:
    """One replica, running or crashed."""

    def __init__(self, world: KraftWorld, node: VoterNode, disk: SimulatedDisk) -> None:
        self.world = world
        self.node = node
        self.disk = disk
        self.core: KraftCore | None = None
        self.incarnation = 0
        self.high_watermark = 0
        # The highest epoch that this replica sent to a peer.
        self.told_epoch = 0
        self.clock_rate = world.rng.uniform(0.9, 1.1)
        self.clock_offset_ms = world.rng.randrange(1000)
        # How many actions are carried out before the replica dies; None if it lives on.
        self.dies_in: int | None = None
        # Voids the report of a sync that a truncation overtook.
        self.log_generation = 0
        self.partial: bytes = b""
        # A process that stands still: its clock goes on, its events wait.
        self.paused_until_ms = 0.0

    @property
    def key(self) -> ReplicaKey:
        return self.node.key

    @property
    def is_running(self) -> bool:
        return self.core is not None

    @property
    def has_lost_entries(self) -> bool:
        """Whether the disk lacks what was durable on it, or the process still waits for it."""
        log = self.disk.log
        return log.end.recency < log.note.recency or (self.core is not None and self.core.lost_end is not None)

    def local_ms(self, now_ms: float) -> int:
        return int(now_ms * self.clock_rate) + self.clock_offset_ms

    def due_ms(self, local_ms: int) -> float:
        return (local_ms - self.clock_offset_ms + 1) / self.clock_rate

    def start(self) -> None:
        """Start the process on what the disk holds."""
        self.incarnation += 1
        self.log_generation += 1
        self.dies_in = None
        self.partial = b""
        self.paused_until_ms = 0.0
        if self.world.hosts_move and self.incarnation > 1:
            moved = tuple(endpoint._replace(host=f"host-{self.incarnation}") for endpoint in self.node.endpoints)
            self.node = replace(self.node, endpoints=moved)
        log = self.disk.log
        # Read before what the start itself syncs is noted.
        durable_end = log.note
        log.sync(log.end_offset)
        bootstrap = tuple(self.world.endpoint(node_id) for node_id in self.world.bootstrap_ids)
        self.core = KraftCore(
            LocalReplica(cluster_id=CLUSTER_ID, node=self.node, bootstrap=bootstrap, auto_join=self.world.auto_join),
            self.world.settings,
            log,
            history=self.disk.history(),
            rng=SeededRng(self.world.rng),
            election=self.disk.election,
            durable_end=durable_end,
            now_ms=self.local_ms(self.world.now_ms),
        )
        self.high_watermark = self.core.high_watermark or 0

    def crash(self) -> None:
        """Kill the process; unsynced entries may be gone."""
        self.core = None
        self.incarnation += 1
        self.disk.log.crash(self.world.rng)

    def run(self, event: Event) -> None:
        """Step an event and everything that follows from it."""
        core = self.core
        if core is None:
            return
        now = self.local_ms(self.world.now_ms)
        events: deque[Event] = deque([event])
        try:
            while events:
                event = events.popleft()
                self.world.trace.event(self, event)
                for action in core.step(event, now):
                    events.extend(self._execute(core, action))
                self.world.steps += 1
                if not events:
                    self.world.checks.after_step(self, self.world.replica_list)
        except CrashError:
            self.world.trace.note(f"{self.key} dies")
            self.crash()
            self.world.restart_later(self)
            return
        deadline = core.next_deadline_ms
        if deadline is not None:
            self.world.set_timer(self, self.due_ms(deadline))

    def append_data(self, values: list[int]) -> None:
        """Append as leader what clients want."""
        core = self.core
        if core is None or not core.is_leader:
            return
        control = self.disk.log.append(tuple(Entry(core.epoch, value) for value in values))
        self._sync_later()
        self.run(LogAppended(self.disk.log.end_offset, control))

    def take_snapshot(self, *, prune: bool) -> None:
        """Write a snapshot of what is committed, perhaps drop the log that it covers."""
        core, log = self.core, self.disk.log
        if core is None or not core.high_watermark:
            return
        end = self.world.rng.randint(max(log.start_offset, 1), core.high_watermark)
        newest = log.latest_snapshot
        epoch = log.epoch_at(end - 1)
        if epoch is None or not log.is_batch_end(end) or (newest is not None and newest.offset >= end):
            return
        snapshot = OffsetAndEpoch(end, epoch)
        voters, level = snapshot_content(core, snapshot)
        log.snapshots[snapshot] = self.world.snapshot_file(snapshot, SnapshotFile(voters, level, _content(snapshot)))
        self.world.trace.note(f"{self.key} takes snapshot {snapshot}{' and prunes' if prune else ''}")
        if prune:
            log.prune(snapshot)
            log.synced_offset = max(log.synced_offset, log.start_offset)
            self.run(LogPruned(log.start_offset))

    def sync_done(self, generation: int, end_offset: int) -> None:
        """The disk finished a sync."""
        if generation == self.log_generation and self.core is not None:
            self.disk.log.sync(end_offset)
            self.run(LogFlushed(end_offset))

    def _sync_later(self) -> None:
        generation, end_offset, incarnation = self.log_generation, self.disk.log.end_offset, self.incarnation

        def done() -> None:
            if incarnation == self.incarnation:
                self.sync_done(generation, end_offset)

        self.world.later(self.world.rng.random() * 8, done)

    def _maybe_die(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise CrashError

    def _execute(self, core: KraftCore, action: Action) -> list[Event]:
        """Carry out an action; return the events that must be stepped before any other."""
        self._maybe_die()
        self.world.trace.action(self, action)
        match action:
            case PersistElection(state, then):
                self.disk.election = state
                return [event for inner in then for event in self._execute(core, inner)]
            case Send():
                self.told_epoch = max(self.told_epoch, core.epoch)
                self.world.network.send(self, action)
            case Reply(token, response):
                if not isinstance(response, VersionsResponse):
                    self.told_epoch = max(self.told_epoch, response.leader.epoch)
                self.world.network.reply(self, token, self._filled(response))
                if isinstance(response, VoteResponse) and self.world.rng.random() < self.world.deaths_after_vote:
                    self.dies_in = self.world.rng.randrange(3)
            case AppendControl() | AppendRecords() | TruncateLog():
                return self._change_log(action)
            case WriteSnapshotChunk(_, position, data):
                self.partial = self.partial[:position] + data
            case InstallSnapshot(snapshot):
                return self._install(snapshot)
            case SettleLoss(end):
                self.disk.log.note = end
            case AdvanceHighWatermark() | RoleChanged() | Warn():
                pass
        return []

    def _change_log(self, action: AppendControl | AppendRecords | TruncateLog) -> list[Event]:
        log = self.disk.log
        if isinstance(action, TruncateLog):
            self.log_generation += 1
            log.truncate(action.end_offset)
            return [LogTruncated(log.end_offset)]
        assert action.base_offset == log.end_offset
        if isinstance(action, AppendControl):
            last = len(action.records) - 1
            entries = tuple(Entry(action.epoch, record, index == last) for index, record in enumerate(action.records))
        else:
            assert isinstance(action.records, tuple)
            entries = action.records
        control = log.append(entries)
        self._sync_later()
        return [LogAppended(log.end_offset, control)]

    def _install(self, snapshot: OffsetAndEpoch) -> list[Event]:
        if self.partial != _content(snapshot):
            return [SnapshotRefused(snapshot, "its bytes are not those of the leader")]
        file = self.world.snapshots[snapshot]
        self.log_generation += 1
        self.disk.log.restart_at(snapshot, file)
        return [SnapshotInstalled(snapshot, file.voters, file.kraft_version)]

    def _filled(self, response: Response) -> Response:
        """Read what the response promises."""
        if isinstance(response, MetadataFetchResponse) and isinstance(response.records, LogRange):
            entries = self.disk.log.read(response.records.offset, self.world.rng.randint(1, self.world.fetched_entries))
            return replace(response, records=entries)
        if isinstance(response, FetchSnapshotResponse) and isinstance(response.data, SnapshotRange):
            wanted = response.data
            data = self.disk.log.snapshots[wanted.snapshot].data
            return replace(response, data=data[wanted.position : wanted.position + wanted.max_bytes])
        return response


def _content(snapshot: OffsetAndEpoch) -> bytes:
    """Bytes in which every piece tells its snapshot and its place."""
    return (f"{snapshot}/".encode() * SNAPSHOT_BYTES)[:SNAPSHOT_BYTES]
