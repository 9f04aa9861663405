"""The one way to change metadata: decide on everything decided before, append, wait until it is applied.

Decisions are pure functions of the controller package. They run one at a time, each on an image that holds everything
decided before, so two requests can never both create the same topic. They do not wait for each other's commit: what is
under way is replayed for the next decision, whose answer waits until all that it was based on is committed.
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
    """Decides and appends for the active controller of this node."""

    def __init__(self, quorum: RaftQuorum) -> None:
        self._quorum = quorum
        # The newest append that is not committed yet; None when the quorum's image holds everything.
        self._newest: asyncio.Future[int] | None = None
        # While there is one: an image, and the records that were appended after it was made.
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
        """Run a decision now and return its result once its records are committed and applied.

        Raises OperationError from the decision, nothing is written then, and NOT_CONTROLLER if this node is not the
        active controller or stops to be before the commit.
        """
        if not self._quorum.is_active:
            raise OperationError(ErrorCode.not_controller, "This node is not the active controller.")
        outcome = decide(self.image)
        if outcome.records:
            self._append(outcome.records)
        if self._newest is not None:
            # Others may wait for the same commit.
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
            # Whoever waits gets it as well; there may be nobody.
            done.exception()

    def _forget(self) -> None:
        self._newest = self._base = None
        self._unseen = []
