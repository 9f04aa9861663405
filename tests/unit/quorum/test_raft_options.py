from __future__ import annotations

from crabka.kraft.settings import KraftSettings
from crabka.quorum.raft_options import QuorumOptions
from crabka.quorum.settings import MetadataLogSettings


def test_the_defaults_are_those_of_a_lone_voter() -> None:
    options = QuorumOptions()
    assert (options.log, options.kraft) == (MetadataLogSettings(), KraftSettings())
    assert (options.voters.nodes, options.bootstrap, options.dialer) == ((), (), None)
