from __future__ import annotations

from crabka.clients.admin.cluster_types import DescribedQuorum, QuorumReplica, ReplicaMove
from crabka.ids import ZERO_UUID


def test_the_target_of_a_reassignment_is_what_stays() -> None:
    assert ReplicaMove((3, 1, 2), adding=(3,), removing=(1,)).target == (3, 2)


def test_the_leader_is_found_among_the_replicas() -> None:
    voter, observer = (QuorumReplica(node, ZERO_UUID, 5, -1, -1) for node in (1, 2))
    quorum = DescribedQuorum(2, 1, 5, (voter,), (observer,), {})
    assert quorum.leader == observer
    assert quorum._replace(leader_id=-1).leader is None
