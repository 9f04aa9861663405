"""Where new replicas go: brokers in turn from a random start, living ones first, never twice on one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.ids import DIRECTORY_UNASSIGNED
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random

    from crabka.ids import DirectoryId
    from crabka.metadata.image import MetadataImage


def place_partitions(
    image: MetadataImage, *, partition_count: int, replication_factor: int, rng: random.Random
) -> list[list[int]]:
    """Return the replicas of each new partition; the first one is the preferred leader.

    Raises OperationError (INVALID_REPLICATION_FACTOR) if there are too few brokers.
    """
    brokers = sorted(image.cluster.brokers.values(), key=lambda broker: (broker.fenced, broker.broker_id))
    usable = [broker.broker_id for broker in brokers if not broker.in_controlled_shutdown]
    living = [broker.broker_id for broker in brokers if not broker.fenced]
    reason = None
    if replication_factor > len(usable):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered."
        )
    elif not living:
        reason = "All brokers are currently fenced."
    if reason is not None:
        raise OperationError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): {reason}",
        )
    start = rng.randrange(len(usable))
    return [_rotate(usable, living, start + shift)[:replication_factor] for shift in range(partition_count)]


def _rotate(usable: list[int], living: list[int], shift: int) -> list[int]:
    order = usable[shift % len(usable) :] + usable[: shift % len(usable)]
    # A fenced broker may hold a replica but cannot lead, so a living one comes first.
    leader = next(node_id for node_id in order if node_id in living)
    return [leader, *(node_id for node_id in order if node_id != leader)]


def initial_directories(image: MetadataImage, replicas: list[int]) -> tuple[DirectoryId, ...]:
    """Return the log dir of each new replica: known at once for a broker with one dir, else told by it later."""
    directories = []
    for node_id in replicas:
        broker = image.cluster.brokers.get(node_id)
        log_dirs = broker.directories if broker is not None else ()
        directories.append(log_dirs[0] if len(log_dirs) == 1 else DIRECTORY_UNASSIGNED)
    return tuple(directories)
