"""Which replicas of a broker can be reached, as far as the metadata knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED

if TYPE_CHECKING:
    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.topics import PartitionImage

NO_LEADER = -1


def has_online_replica(broker: BrokerRegistration, partition: PartitionImage) -> bool:
    """Return whether a broker's replica lies in a log dir that works, as far as the metadata knows."""
    return is_online_directory(broker, partition.directory_of(broker.broker_id))


def is_online_directory(broker: BrokerRegistration, directory: DirectoryId) -> bool:
    """Return whether a broker can reach this log dir, as far as the metadata knows."""
    if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
        return True
    # A broker that registered no directories at all is older than JBOD (KIP-858).
    return directory != DIRECTORY_LOST and (not broker.directories or directory in broker.directories)
