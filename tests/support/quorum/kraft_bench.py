"""One core on a workbench: a list as log, requests by hand, and every action of a step to look at."""

from __future__ import annotations

from collections import deque
from typing import TypeVar
from uuid import UUID

from crabka.kraft.actions import (
    Action,
    AppendControl,
    AppendRecords,
    ElectionState,
    InstallSnapshot,
    PersistElection,
    Reply,
    Send,
    TruncateLog,
)
from crabka.kraft.core import KraftCore
from crabka.kraft.events import (
    Event,
    LogAppended,
    LogFlushed,
    LogTruncated,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotInstalled,
    TimePassed,
)
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from crabka.kraft.roles import RoleName
from crabka.kraft.settings import KraftSettings, LocalReplica
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet, without_directory_ids
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry, SimulatedLog, SnapshotFile

T = TypeVar("T")
CLUSTER = "bench"
OK = ErrorCode.none


class MiddleRng:
    """Always the middle of the range."""

    def below(self, bound: int) -> int:
        return bound // 2


def voter(node_id: int) -> VoterNode:
    """Return a voter with an endpoint and a directory id of its own."""
    return VoterNode(
        node_id, UUID(int=node_id + 100), (VoterEndpoint("CONTROLLER", f"host-{node_id}", 9000 + node_id),)
    )


def voter_set(*ids: int) -> VoterSet:
    """Return a voter set."""
    return VoterSet(tuple(voter(node_id) for node_id in ids))


class CoreBench:
    """A core whose driver does everything at once; syncs can be held back."""

    def __init__(
        self,
        node_id: int = 1,
        voters: tuple[int, ...] = (1, 2, 3),
        *,
        level: int = 1,
        election: ElectionState | None = None,
        entries: tuple[Entry, ...] = (),
        bootstrap: tuple[VoterEndpoint, ...] = (),
        auto_join: bool = False,
        durable_end: OffsetAndEpoch | None = None,
    ) -> None:
        self.log = SimulatedLog()
        self.log.append(entries)
        self.settings = KraftSettings()
        self.now_ms = 1_000
        self.syncs = True
        # Whether fetched records are not fit to be appended.
        self.refuses = False
        self.snapshot_file = SnapshotFile(voter_set(*voters), level, b"")
        first = voter_set(*voters) if level else without_directory_ids(voter_set(*voters))
        self.core = KraftCore(
            LocalReplica(cluster_id=CLUSTER, node=voter(node_id), bootstrap=bootstrap, auto_join=auto_join),
            self.settings,
            self.log,
            history=VoterHistory(first, level),
            rng=MiddleRng(),
            election=election,
            durable_end=durable_end,
            now_ms=self.now_ms,
        )
        self.actions: list[Action] = []

    @property
    def state(self) -> ElectionState:
        return self.core.election

    @property
    def leader_role(self) -> LeaderRole:
        role = self.core._state.role
        assert isinstance(role, LeaderRole)
        return role

    def role(self) -> RoleName:
        """Return the role now; a property would be taken for constant by the type checker."""
        return self.core.role

    def step(self, event: Event) -> list[Action]:
        """Step an event and what follows from it; return all actions, those inside PersistElection after it."""
        self.actions = []
        events: deque[Event] = deque([event])
        while events:
            for action in self.core.step(events.popleft(), self.now_ms):
                self._execute(action, events)
            if not events:
                self.core.check_invariants()
        return self.actions

    def pass_time(self, ms: int) -> list[Action]:
        """Let time go on in one go."""
        self.now_ms += ms
        return self.step(TimePassed())

    def ask(self, request: Request) -> Response | None:
        """Give a request; return the answer if it comes at once."""
        self.step(RequestReceived("token", request))
        return next((action.response for action in self.of(Reply) if action.token == "token"), None)

    def of(self, kind: type[T]) -> list[T]:
        """Return the actions of a kind in the last step."""
        return [action for action in self.actions if isinstance(action, kind)]

    def sent(self, kind: type[T]) -> list[tuple[Send, T]]:
        """Return the requests of a kind that left in the last step."""
        return [(send, send.request) for send in self.of(Send) if isinstance(send.request, kind)]

    def respond(self, send: Send, response: Response) -> list[Action]:
        """Answer a request that left."""
        return self.step(ResponseReceived(send.request_id, response))

    def fail(self, send: Send, *, unsupported: bool = False) -> list[Action]:
        """Let a request fail."""
        return self.step(RequestFailed(send.request_id, unsupported=unsupported))

    def flush(self) -> list[Action]:
        """Finish the sync of the log."""
        return self.step(LogFlushed(self.log.end_offset))

    def stand(self) -> list[Action]:
        """Let the election time-out pass, and win the pre-votes of all others."""
        self.pass_time(10_000)
        return self._win(RoleName.PROSPECTIVE)

    def lead(self) -> list[Action]:
        """Become leader with all votes."""
        self.stand()
        return self._win(RoleName.CANDIDATE)

    def lead_and_commit(self) -> None:
        """Become leader and commit the start of the epoch."""
        self.lead()
        for node in self.core.voters.nodes:
            if node.voter_id != self.core._state.key.node_id:
                self.fetch_from(node.voter_id)

    def fetch_from(self, node_id: int, offset: int | None = None, *, wait_ms: int = 0) -> Response | None:
        """Let a replica fetch at the log end, or at `offset`, with the epoch that the log has there."""
        end = self.log.end_offset if offset is None else offset
        epoch = self.log.epoch_at(end - 1) or 0
        key = voter(node_id).key
        return self.ask(
            MetadataFetchRequest(
                cluster_id=CLUSTER,
                replica=key,
                epoch=self.core.epoch,
                fetch_offset=end,
                last_fetched_epoch=epoch,
                max_wait_ms=wait_ms,
                max_bytes=100,
                high_watermark=self.core.high_watermark,
            )
        )

    def follow(self, leader_id: int = 2, epoch: int = 1) -> list[Action]:
        """Follow a leader that makes itself known, and send it a fetch."""
        self.ask(BeginQuorumEpochRequest(cluster_id=CLUSTER, leader_id=leader_id, epoch=epoch))
        assert self.core.role is RoleName.FOLLOWER
        return self.actions

    def append(self, *values: int) -> list[Action]:
        """Append records of clients as leader."""
        self.log.append(tuple(Entry(self.core.epoch, value) for value in values))
        self.step(LogAppended(self.log.end_offset))
        actions = list(self.actions)
        if self.syncs:
            actions += self.flush()
        self.actions = actions
        return actions

    def _win(self, role: RoleName) -> list[Action]:
        while self.core.role is role:
            send, request = self.sent(VoteRequest)[0]
            rest = self.actions
            self.respond(send, VoteResponse(error=OK, leader=LeaderHint(request.epoch), granted=True))
            if self.core.role is role:
                self.actions = [action for action in rest if action is not send]
        return self.actions

    def _execute(self, action: Action, events: deque[Event]) -> None:
        self.actions.append(action)
        match action:
            case PersistElection(_, then):
                for inner in then:
                    self._execute(inner, events)
            case AppendControl(epoch, _, records):
                self._append(tuple(Entry(epoch, record) for record in records), events)
            case AppendRecords():
                assert isinstance(action.records, tuple)
                if self.refuses:
                    events.append(LogAppended(self.log.end_offset, refused=True))
                else:
                    self._append(action.records, events)
            case TruncateLog(end_offset):
                self.log.truncate(end_offset)
                events.append(LogTruncated(end_offset))
            case InstallSnapshot(snapshot):
                self.log.restart_at(snapshot, self.snapshot_file)
                file = self.snapshot_file
                events.append(SnapshotInstalled(snapshot, file.voters, file.kraft_version))

    def _append(self, entries: tuple[Entry, ...], events: deque[Event]) -> None:
        control = self.log.append(entries)
        events.append(LogAppended(self.log.end_offset, control))
        if self.syncs:
            events.append(LogFlushed(self.log.end_offset))


def fetch(key: ReplicaKey, epoch: int, offset: int, last_epoch: int, *, wait_ms: int = 0) -> MetadataFetchRequest:
    """Return a fetch of a replica."""
    return MetadataFetchRequest(
        cluster_id=CLUSTER,
        replica=key,
        epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        max_wait_ms=wait_ms,
        max_bytes=100,
    )


def fetched(epoch: int, leader_id: int, *entries: Entry, high_watermark: int | None = None) -> MetadataFetchResponse:
    """Return a leader's answer with records."""
    return MetadataFetchResponse(
        error=OK, leader=LeaderHint(epoch, leader_id), high_watermark=high_watermark, records=entries or None
    )
