"""Whether a replica that lost records leaves the lead to others. PURE.

The rule makes the controller's usual means do: a replica that stands back is reported as one whose directory is lost
(AssignReplicasToDirs, KIP-858), for that partition alone. The controller takes it out of ISR and leadership, and elects
it in no way, clean or unclean. Its broker still follows the leader. It is reported in its real directory again

- when it is in the ISR of another leader: then it has everything that is committed, and its loss is settled;
- when another replica leads and this one is not eligible: then it is a follower like any other that lags. Its loss
  stands until it is in the ISR: without a leader it stands back again;
- when no other replica is left to wait for, or all of these stand back as well, are there, and this one is the first
  that the metadata would have trusted. Its loss is settled at once.

Which replicas are waited for depends on the loss. What was synced and is gone (rot) may be on any replica of a
registered broker. What was committed and never synced (a power cut) is waited for as long as the metadata trusts
another replica, in sync or eligible, to have it. If it trusts none, the last leader that it knows is the best that is
left, as in Kafka: the others may lag far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.ids import DIRECTORY_LOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.topics import PartitionImage

NO_LEADER: Final = -1


def must_stand_back(
    partition: PartitionImage, node_id: int, brokers: Mapping[int, BrokerRegistration], *, is_durable: bool
) -> bool:
    """Return whether a replica of this node, which lost records, must not lead; `is_durable` if these were synced."""
    awaited = partition.replicas if is_durable else {*partition.isr, *partition.elr}
    others = [each for each in partition.replicas if each != node_id and each in brokers and each in awaited]
    if partition.leader not in (node_id, NO_LEADER):
        return node_id in partition.elr
    if not others or partition.leader == node_id:
        return False
    if any(brokers[each].fenced or partition.directory_of(each) != DIRECTORY_LOST for each in others):
        # It may have what is missing here.
        return True
    return node_id != _first_trusted(partition, {node_id, *others})


def is_settled(partition: PartitionImage, node_id: int) -> bool:
    """Return whether a replica that need not stand back has what it lost, or leads without it."""
    return partition.leader in (node_id, NO_LEADER) or node_id in partition.isr


def _first_trusted(partition: PartitionImage, candidates: set[int]) -> int:
    order = (*partition.isr, *partition.elr, *partition.last_known_elr, *partition.replicas)
    return next(each for each in order if each in candidates)
