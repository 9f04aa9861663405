"""The only way to change metadata: decide on all earlier decisions, append, wait until the records are applied.

Decisions are pure functions. They run one at a time, each on an image that includes all earlier decisions, so two
requests can never both create the same topic. They do not wait for each other's commit: uncommitted records are
replayed for the next decision, and its answer waits until all records that it was based on are committed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from crabka.errors import CorruptDataError, InvariantError, OperationError
from crabka.metadata.delta import MetadataDelta
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.metadata.image import MetadataImage
    from crabka.metadata.requests import Outcome
    from crabka.quorum.raft.quorum import RaftQuorum

T = TypeVar("T")


class MetadataWriter:
    """Runs decisions and appends their records while this node is the active controller."""

    def __init__(self, quorum: RaftQuorum) -> None:
        self._quorum = quorum
        # The newest append that is not committed yet; None when the quorum's image holds everything.
        self._newest: asyncio.Future[int] | None = None
        # Meaningful while an append is uncommitted: an image, and the records that were appended after it.
        self._base: MetadataImage | None = None
        self._unseen: list[Any] = []
        self._last_offset = -1
        quorum.on_leadership(lambda _epoch: self._forget(), self._forget)

    @property
    def image(self) -> MetadataImage:
        """The metadata with everything decided so far, committed or not."""
        if self._base is None:
            return self._quorum.image
        if self._unseen:
            delta = MetadataDelta(self._base)
            try:
                for record in self._unseen:
                    delta.replay(record)
            except CorruptDataError as error:
                raise InvariantError(f"a decision contradicts the metadata: {error}") from error
            self._base = delta.apply(self._last_offset, self._quorum.leader_epoch)
            self._unseen = []
        return self._base

    async def submit(self, decide: Callable[[MetadataImage], Outcome[T]]) -> T:
        """Run a decision now; return its result once its records are committed and applied.

        Raises OperationError: the error of the decision, which writes nothing then, or NOT_CONTROLLER if this node is
        not the active controller or loses that role before the commit.
        """
        if not self._quorum.is_active:
            raise OperationError(ErrorCode.not_controller, "This node is not the active controller.")
        outcome = decide(self.image)
        if outcome.records:
            self._append(outcome.records)
        if self._newest is not None:
            # Other requests may wait for the same commit.
            await asyncio.shield(self._newest)
        return outcome.result

    def _append(self, records: Sequence[Any]) -> None:
        if self._base is None:
            self._base = self._quorum.image
        self._last_offset = self._quorum.next_offset + len(records) - 1
        self._unseen.extend(records)
        self._newest = self._quorum.append(records)
        self._newest.add_done_callback(self._settled)

    def _settled(self, done: asyncio.Future[int]) -> None:
        if done is self._newest:
            self._forget()
        if not done.cancelled():
            # Waiters receive the exception as well; there may be none.
            done.exception()

    def _forget(self) -> None:
        self._newest = self._base = None
        self._unseen = []
