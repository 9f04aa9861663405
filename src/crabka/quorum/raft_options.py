"""How a replica takes part in the metadata quorum."""

from __future__ import annotations

from typing import NamedTuple

from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterEndpoint, VoterSet
from crabka.quorum.raft_sender import OutboundDialer
from crabka.quorum.settings import MetadataLogSettings


class QuorumOptions(NamedTuple):
    """How a replica takes part; the defaults are those of a lone voter."""

    log: MetadataLogSettings = MetadataLogSettings()
    kraft: KraftSettings = KraftSettings()
    endpoints: tuple[VoterEndpoint, ...] = ()
    # The voters of a static quorum (controller.quorum.voters).
    voters: VoterSet = VoterSet()
    # Where to ask for the leader (controller.quorum.bootstrap.servers).
    bootstrap: tuple[VoterEndpoint, ...] = ()
    dialer: OutboundDialer | None = None
    min_insync_replicas: int = 1
