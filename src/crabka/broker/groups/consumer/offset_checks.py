"""Which offsets members of a consumer group may commit and fetch (KIP-848, KIP-1251)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.messages import UNKNOWN_MEMBER
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.groups.consumer.context import GroupContext
    from crabka.broker.groups.consumer.store import GroupStore

# Clients since OffsetCommit v9 may use the consumer protocol.
FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH = 9


class OffsetChecks:
    """The checks of one group."""

    __slots__ = ("_context", "_store")

    def __init__(self, context: GroupContext, store: GroupStore) -> None:
        self._context = context
        self._store = store

    def commit(self, member_id: str, epoch: int, version: int | None) -> CommitCheck:
        """Return the check of the partitions of a commit. Raises OperationError if nothing may be committed.

        `version` is that of OffsetCommit; None stands for a commit in a transaction, which may name no member.
        """
        data = self._store.commit_data
        if version is None and epoch < 0 and member_id == UNKNOWN_MEMBER:
            return CommitCheck(self._context, self._store, None, epoch)
        if epoch < 0 and not data.members:
            # An administrator, or a consumer with manually assigned partitions.
            return CommitCheck(self._context, self._store, None, epoch)
        member = data.members.get(member_id)
        if member is None:
            raise self._context.unknown_member(member_id)
        names_epoch = version is None or version >= FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH
        if not (member.uses_classic_protocol or names_epoch):
            raise OperationError(ErrorCode.unsupported_version)
        if epoch > member.current.epoch:
            raise OperationError(_wrong_epoch(classic=member.uses_classic_protocol))
        is_current = epoch == member.current.epoch
        return CommitCheck(self._context, self._store, None if is_current else member_id, epoch)

    def fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise OperationError if a member fetches offsets with another epoch than its own."""
        if member_id is None and epoch < 0:
            return
        member = self._store.committed.members.get(member_id or UNKNOWN_MEMBER)
        if member is None:
            raise self._context.unknown_member(member_id or UNKNOWN_MEMBER)
        if epoch != member.current.epoch:
            raise OperationError(_wrong_epoch(classic=member.uses_classic_protocol))


class CommitCheck:
    """The partitions that a commit may contain: with an older epoch only those that the member has had since."""

    __slots__ = ("_context", "_epoch", "_member_id", "_store")

    def __init__(self, context: GroupContext, store: GroupStore, member_id: str | None, epoch: int) -> None:
        self._context = context
        self._store = store
        # None if the commit may contain any partition.
        self._member_id = member_id
        self._epoch = epoch

    def require(self, places: Iterable[tuple[str, int]]) -> None:
        """Raise OperationError if one of these partitions must not be committed."""
        for topic, partition in places:
            error_code = self.error_of(topic, partition)
            if error_code is not ErrorCode.none:
                raise OperationError(error_code)

    def error_of(self, topic: str, partition: int) -> ErrorCode:
        """Return the error of the commit of a partition; `none` if it is allowed."""
        if self._member_id is None:
            return ErrorCode.none
        member = self._store.commit_data.members[self._member_id]
        known = self._context.catalog.by_name.get(topic)
        for topics in (member.current.assigned, member.current.revoking):
            since = topics.get(known.topic_id, {}).get(partition) if known is not None else None
            if since is not None:
                is_old = self._epoch < since
                return _wrong_epoch(classic=member.uses_classic_protocol) if is_old else ErrorCode.none
        return _wrong_epoch(classic=member.uses_classic_protocol)


def _wrong_epoch(*, classic: bool) -> ErrorCode:
    return ErrorCode.illegal_generation if classic else ErrorCode.stale_member_epoch
