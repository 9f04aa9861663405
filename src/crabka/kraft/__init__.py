"""The consensus core of the metadata quorum: pure state, events in, actions out.

Read `core` first, then `events` and `actions`, `state` and `roles` (what a replica knows), `transitions` (between
roles), `election`, `leading`, `following`, `snapshot_fetch`, `reconfiguration` (changes of the voters) and `polling`
(time-outs). `log_view` is the log as the core reads it, `voter_history` the voters in it, `messages` and `requests`
what replicas send.

Invariants (`invariants` checks them after each step): at most one leader per epoch; a committed record is in the log
of every later leader; a vote or an epoch is durable before another node sees it; nothing durable is lost without
notice.
"""

from crabka.kraft.core import KraftCore
from crabka.kraft.log_view import LogView, OffsetAndEpoch
from crabka.kraft.settings import KraftSettings, LocalReplica, Rng
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet

__all__ = [
    "KraftCore",
    "KraftSettings",
    "LocalReplica",
    "LogView",
    "OffsetAndEpoch",
    "ReplicaKey",
    "Rng",
    "VoterEndpoint",
    "VoterHistory",
    "VoterNode",
    "VoterSet",
]
