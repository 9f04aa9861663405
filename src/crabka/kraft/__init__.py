"""The consensus core of the metadata quorum: pure state, events in, actions out."""

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
