"""What must hold in the whole quorum, by name, checked after every step of any replica."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crabka.errors import InvariantError
from crabka.kraft.actions import VotersChange
from crabka.kraft.messages import VoteRequest
from crabka.kraft.voters import ReplicaKey, VoterSet
from tests.support.kraft_sim.disk import Entry

if TYPE_CHECKING:
    from tests.support.kraft_sim.replica import SimulatedReplica

ONE_LEADER = "one leader per epoch"
ONE_VOTE = "one vote per epoch"
MONOTONE_EPOCH = "monotone epoch"
MONOTONE_HIGH_WATERMARK = "monotone high watermark"
COMMITTED_EQUAL = "committed entries equal everywhere"
COMMITTED_KEPT = "committed entries never lost"
MAJORITY_HOLDS = "majority holds the high watermark"
VOTERS_ONE_BY_ONE = "voter set changes are committed one by one"
CONSISTENT = "replica is consistent"
LIVENESS = "liveness after healing"


class BrokenQuorumError(AssertionError):
    """A named fact about the quorum does not hold."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class QuorumChecks:
    """What the world knows of the quorum as a whole."""

    def __init__(self, voters: VoterSet) -> None:
        self.committed: list[Entry] = []
        self.committed_voters = voters
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def after_step(self, replica: SimulatedReplica, replicas: list[SimulatedReplica]) -> None:
        """Check a replica that just took a step, and what it commits."""
        core = replica.core
        if core is None:
            return
        try:
            core.check_invariants()
        except InvariantError as error:
            raise BrokenQuorumError(CONSISTENT, f"replica {replica.key}: {error}") from error
        if core.epoch < replica.told_epoch:
            raise BrokenQuorumError(MONOTONE_EPOCH, f"{replica.key} is in {core.epoch}, told {replica.told_epoch}")
        if core.is_leader:
            self._check_leader(replica)
        self._check_high_watermark(replica, replicas)

    def note_vote(self, voter: ReplicaKey, request: VoteRequest, *, granted: bool) -> None:
        """The answer to a vote request leaves a replica."""
        if not granted:
            return
        candidate = self.votes.setdefault((voter, request.epoch), request.candidate)
        if candidate != request.candidate:
            text = f"{voter} votes for {candidate} and {request.candidate} in {request.epoch}"
            raise BrokenQuorumError(ONE_VOTE, text)

    def _check_leader(self, replica: SimulatedReplica) -> None:
        core = replica.core
        assert core is not None
        known = self.leaders.get(core.epoch)
        if known is None:
            self.leaders[core.epoch] = replica.key
            self._check_holds_committed(replica)
        elif known != replica.key:
            raise BrokenQuorumError(ONE_LEADER, f"epoch {core.epoch}: {known} and {replica.key}")
        if core.history.voters_offset >= len(self.committed):
            sets = core.history.voters_from(len(self.committed))
            changes = sum(not _same_voters(before, after) for before, after in pairwise(sets))
            if changes > 1:
                text = f"leader {replica.key} has {changes} changes under way: {', '.join(map(str, sets))}"
                raise BrokenQuorumError(VOTERS_ONE_BY_ONE, text)

    def _check_holds_committed(self, replica: SimulatedReplica) -> None:
        """A new leader has every committed entry: with the last one it has all (log matching)."""
        log = replica.disk.log
        last = len(self.committed) - 1
        if last < 0 or last < log.start_offset - 1:
            return
        if log.epoch_at(last) != self.committed[last].epoch:
            text = f"leader {replica.key} has {log.entry(last)} at {last}, committed is {self.committed[last]}"
            raise BrokenQuorumError(COMMITTED_KEPT, text)

    def _check_high_watermark(self, replica: SimulatedReplica, replicas: list[SimulatedReplica]) -> None:
        core = replica.core
        assert core is not None
        high_watermark = core.high_watermark or 0
        if high_watermark < replica.high_watermark:
            text = f"{replica.key} goes from {replica.high_watermark} to {high_watermark}"
            raise BrokenQuorumError(MONOTONE_HIGH_WATERMARK, text)
        if high_watermark == replica.high_watermark:
            return
        log = replica.disk.log
        for offset in range(max(replica.high_watermark, log.start_offset), high_watermark):
            self._commit(replica, offset, log.entry(offset))
        if high_watermark > len(self.committed):
            raise BrokenQuorumError(COMMITTED_EQUAL, f"{replica.key} has a snapshot of uncommitted records")
        if core.is_leader:
            self._check_majority(replica, replicas, high_watermark)
        replica.high_watermark = high_watermark

    def _commit(self, replica: SimulatedReplica, offset: int, entry: Entry | None) -> None:
        if entry is None:
            raise BrokenQuorumError(COMMITTED_KEPT, f"{replica.key} committed {offset} and does not have it")
        if offset < len(self.committed):
            if self.committed[offset] != entry:
                text = f"{replica.key} has {entry} at {offset}, committed is {self.committed[offset]}"
                raise BrokenQuorumError(COMMITTED_EQUAL, text)
            return
        self.committed.append(entry)
        if isinstance(entry.payload, VotersChange):
            self._check_voter_change(entry.payload.voters, offset)

    def _check_voter_change(self, voters: VoterSet, offset: int) -> None:
        before = self.committed_voters
        if not _same_voters(before, voters) and before.changed_voters(voters) > 1:
            raise BrokenQuorumError(VOTERS_ONE_BY_ONE, f"{before} becomes {voters} at {offset}")
        self.committed_voters = voters

    def _check_majority(self, leader: SimulatedReplica, replicas: list[SimulatedReplica], high_watermark: int) -> None:
        assert leader.core is not None
        voters = leader.core.voters
        epoch = leader.disk.log.epoch_at(high_watermark - 1)
        holders = [
            replica.key
            for replica in replicas
            if voters.is_voter(replica.key) and _holds(replica, high_watermark, epoch)
        ]
        if len(holders) < voters.majority:
            text = f"{high_watermark} of leader {leader.key} is durable only on {holders} of {voters}"
            raise BrokenQuorumError(MAJORITY_HOLDS, text)


def _same_voters(before: VoterSet, after: VoterSet) -> bool:
    """Whether no voter joined or left; the upgrade to kraft.version 1 gives directory ids to the voters."""
    return before.ids == after.ids and all(before.is_voter(node.key) for node in after.nodes)


def _holds(replica: SimulatedReplica, high_watermark: int, epoch: int | None) -> bool:
    log = replica.disk.log
    if log.start_offset >= high_watermark:
        return True
    if replica.has_lost_entries and epoch is not None and log.note.recency >= (epoch, high_watermark):
        # It acknowledged them before its disk lost them, and has no vote without them.
        return True
    return log.synced_offset >= high_watermark and log.epoch_at(high_watermark - 1) == epoch
