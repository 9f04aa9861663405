"""Time-outs of the quorum and the arithmetic on them. Time and randomness come from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode

# A leader waits half as long again as a follower before it concludes that it lost the majority (Kafka: LeaderState).
CHECK_QUORUM_FACTOR = 1.5
# An observer that did not fetch for so long is no longer described.
OBSERVER_SESSION_MS = 300_000
# A new voter must have reached the end of the leader's log within this time (Kafka: one hour).
CAUGHT_UP_WITHIN_MS = 3_600_000
# All voters notice within milliseconds that the leader's process is gone. They stand one after the other, so that their
# votes do not split; a vote takes two round trips and two syncs.
LOST_LEADER_STEP_MS = 100
_MAX_DOUBLINGS = 20


class Rng(Protocol):
    """Random numbers, seeded by the owner of the core."""

    def below(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftSettings:
    """Kafka's `controller.quorum.*` times with their defaults, and bounds on what one request asks for."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    snapshot_max_bytes: int = 1 << 30
    # How far requests within a window, and one response, may raise the epoch: see `epochs`. At one election a second
    # the first are almost three hours of elections, the second half a year.
    request_epochs: int = 10_000
    request_epochs_window_ms: int = 3_600_000
    response_epochs: int = 1 << 24

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader leads without a majority that fetches."""
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def begin_quorum_period_ms(self) -> int:
        """How often a leader reminds a voter that does not fetch."""
        return self.fetch_timeout_ms // 2

    @property
    def update_voter_period_ms(self) -> int:
        """How often a follower looks whether the voter set knows its endpoints and versions."""
        return self.fetch_timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplica:
    """Who this node is; `bootstrap` are addresses of voters for a node that does not know any."""

    cluster_id: str
    node: VoterNode
    bootstrap: tuple[VoterEndpoint, ...] = ()
    # Whether it asks to become a voter by itself (controller.quorum.auto.join.enable).
    auto_join: bool = False

    @property
    def key(self) -> ReplicaKey:
        """The identity of this replica."""
        return self.node.key


def random_election_timeout_ms(settings: KraftSettings, rng: Rng) -> int:
    """Return one to two election time-outs, so that voters rarely stand at once."""
    return settings.election_timeout_ms + rng.below(max(1, settings.election_timeout_ms))


def lost_election_backoff_ms(settings: KraftSettings, rng: Rng, retries: int) -> int:
    """Return a random wait that grows with each lost election in a row (binary exponential)."""
    spread = settings.retry_backoff_ms << min(_MAX_DOUBLINGS, max(1, retries))
    return min(settings.election_backoff_max_ms, rng.below(max(1, spread)))


def refused_records_backoff_ms(settings: KraftSettings, count: int) -> int:
    """Return how long a leader is left alone whose records were refused so many times: it doubles."""
    return min(settings.fetch_timeout_ms, settings.retry_backoff_ms << min(_MAX_DOUBLINGS, count))


def successor_backoff_ms(settings: KraftSettings, rng: Rng, position: int | None, successors: int) -> int:
    """Return how long a voter waits after EndQuorumEpoch: the first not at all, the others twice their predecessor.

    A voter that the leader did not name waits at random.
    """
    if position is None:
        return rng.below(max(1, settings.election_backoff_max_ms))
    if position == 0:
        return 0
    base = max(1, settings.election_backoff_max_ms >> max(0, successors - 1))
    return min(settings.election_backoff_max_ms, base << min(_MAX_DOUBLINGS, position - 1))
