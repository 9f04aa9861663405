"""The consensus core of the metadata quorum: pure state, events in, actions out."""

from crabka.kraft.core import KraftCore
from crabka.kraft.log_view import LogView, OffsetAndEpoch
from crabka.kraft.settings import Chance, KraftSettings, LocalReplica
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet

__all__ = [
    "Chance",
    "KraftCore",
    "KraftSettings",
    "LocalReplica",
    "LogView",
    "OffsetAndEpoch",
    "ReplicaKey",
    "VoterEndpoint",
    "VoterHistory",
    "VoterNode",
    "VoterSet",
]
