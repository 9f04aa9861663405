"""One step of a member towards the target assignment (KIP-848): revoke first, then assign what is free.

A member keeps its epoch until it reports that it has revoked all partitions outside its target. A partition goes to its
next owner only when no member has it or is still revoking it, so it has at most one owner at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.groups.consumer.member import (
    NOTHING_ASSIGNED,
    AssignedPartitions,
    CurrentAssignment,
    ReconciliationState,
)
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Collection

    from crabka.broker.groups.consumer.assignors.spec import Partitions

_STATE = ReconciliationState


class Goal(NamedTuple):
    """The target of a member, and which partitions it can get now."""

    epoch: int
    target: Partitions
    # Topics of the member's subscription; it never has partitions of others.
    topic_ids: Collection[uuid.UUID]
    is_free: Callable[[uuid.UUID, int], bool]
    subscription_changed: bool = False


def reconcile(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """Return the next assignment of a member. `owned` is what it reports to own; None without a report.

    Raises OperationError: FENCED_MEMBER_EPOCH if it has to rejoin because its partitions are unknown.
    """
    match current.state:
        case _STATE.STABLE if current.epoch == goal.epoch:
            return _leave_topics(current, goal, owned) if goal.subscription_changed else current
        case _STATE.UNREVOKED_PARTITIONS if _owns_some(owned, current.revoking):
            return _leave_topics(current, goal, owned) if goal.subscription_changed else current
        case _STATE.UNKNOWN:
            if owned is None or owned:
                message = "The member is in an unknown state. It must abandon all its partitions and rejoin."
                raise OperationError(ErrorCode.fenced_member_epoch, message)
            return _next(current._replace(epoch=goal.epoch), goal, owned)
    return _next(current, goal, owned)


def _owns_some(owned: Partitions | None, partitions: AssignedPartitions) -> bool:
    if owned is None:
        return True
    return any(
        topic_id in partitions and any(each in partitions[topic_id] for each in numbers)
        for topic_id, numbers in owned.items()
    )


def _leave_topics(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """Revoke topics that the member no longer subscribes to, without waiting for a new target."""
    gone = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in goal.topic_ids}
    if not gone:
        return current
    kept = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in gone}
    moved = current.moved_to(current.epoch)._replace(assigned=kept)
    revoking = {topic_id: dict(each) for topic_id, each in current.revoking.items()}
    for topic_id, partitions in gone.items():
        revoking.setdefault(topic_id, {}).update(partitions)
    if _owns_some(owned, revoking):
        return moved._replace(state=_STATE.UNREVOKED_PARTITIONS, revoking=revoking)
    return moved


def _next(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    assigned: dict[uuid.UUID, dict[int, int]] = {}
    revoking: dict[uuid.UUID, dict[int, int]] = {}
    arriving: list[tuple[uuid.UUID, int]] = []
    waits = False
    nothing: frozenset[int] = frozenset()
    for topic_id in dict.fromkeys((*goal.target, *current.assigned)):
        target = goal.target.get(topic_id, nothing) if topic_id in goal.topic_ids else nothing
        had = current.assigned.get(topic_id, {})
        kept = {partition: epoch for partition, epoch in had.items() if partition in target}
        if kept:
            assigned[topic_id] = kept
        if len(kept) < len(had):
            revoking[topic_id] = {partition: epoch for partition, epoch in had.items() if partition not in kept}
        for partition in sorted(target.difference(kept)):
            # Partitions that the member itself has just revoked are free for it.
            if goal.is_free(topic_id, partition) or partition in current.revoking.get(topic_id, ()):
                arriving.append((topic_id, partition))
            else:
                waits = True
    if revoking and _owns_some(owned, revoking):
        return current.moved_to(current.epoch)._replace(
            state=_STATE.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking
        )
    for topic_id, partition in arriving:
        assigned.setdefault(topic_id, {})[partition] = goal.epoch
    return current.moved_to(goal.epoch)._replace(
        state=_STATE.UNRELEASED_PARTITIONS if waits else _STATE.STABLE, assigned=assigned, revoking=NOTHING_ASSIGNED
    )
