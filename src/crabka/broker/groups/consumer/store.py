"""The stored state of a consumer group, which changes by records, one batch at a time.

A step changes the state at once and returns its records as one batch. If the batch cannot be stored, the state goes
back to what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.messages import ConsumerHeartbeatResult, Downgraded
from crabka.broker.groups.consumer.records import encode_consumer_record
from crabka.broker.groups.consumer.state import ConsumerGroupData
from crabka.broker.groups.messages import Answer, JoinResult, LeaveResult, SyncResult
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.consumer.records import ConsumerRecord, Pair


class GroupStore:
    """State of one group, its open batch, and the actions that wait for the batch."""

    __slots__ = ("_batch", "_held", "_undo", "data", "is_storing", "metadata_version")

    def __init__(self) -> None:
        self.data = ConsumerGroupData()
        # Whether a batch was returned whose outcome is not known yet.
        self.is_storing = False
        # The version of the catalog for which `data.metadata_hash` was checked last; -1 if for none.
        self.metadata_version = -1
        self._batch: list[Pair] = []
        self._undo: ConsumerGroupData | None = None
        self._held: list[Answer | Downgraded] = []

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def committed(self) -> ConsumerGroupData:
        """Return the stored state, without a batch that may still fail."""
        return self._undo if self.is_storing and self._undo is not None else self.data

    @property
    def commit_data(self) -> ConsumerGroupData:
        """Return the state by which commits are checked: the newest, or the stored one during a downgrade.

        Members of a group that becomes a classic one stay in it.
        """
        is_downgrading = any(isinstance(each, Downgraded) for each in self._held)
        return self.committed if is_downgrading else self.data

    @property
    def is_creating(self) -> bool:
        """Return whether the open batch contains the first records of the group."""
        return self._undo is not None and self._undo.is_gone

    # -- a step --------------------------------------------------------------------------------------------------

    def write(self, record: ConsumerRecord) -> None:
        """Change the state by a record, which joins the batch of this step."""
        self.write_pair(encode_consumer_record(record))
        self.data.apply(record)

    def write_pair(self, pair: Pair) -> None:
        """Add a record that does not change this group's state."""
        if self._undo is None:
            self._undo = self.data.copy()
        self._batch.append(pair)

    def hold(self, action: Answer | Downgraded) -> None:
        """Return an action when the records of this step are stored; at once if there are none."""
        self._held.append(action)

    def take_batch(self) -> tuple[Pair, ...]:
        """Close the batch of a step; return its records. Without records, `take_held` returns what waits."""
        batch, self._batch = tuple(self._batch), []
        self.is_storing = bool(batch)
        return batch

    def take_held(self) -> list[Answer | Downgraded]:
        """Return the actions that waited."""
        held, self._held = self._held, []
        return held

    def abandon(self) -> None:
        """Undo a step that is refused."""
        self._batch.clear()
        self._held.clear()
        self._restore()

    def finish(self, error_code: ErrorCode) -> list[Answer | Downgraded]:
        """Return the actions that waited for the batch; after an error the state is restored and answers say so."""
        self.is_storing = False
        held = self.take_held()
        if error_code is ErrorCode.none:
            self._undo = None
            return held
        self._restore()
        return [failed_answer(each, error_code) for each in held if isinstance(each, Answer)]

    def _restore(self) -> None:
        if self._undo is not None:
            self.data, self._undo = self._undo, None
            self.metadata_version = -1


def failed_answer(answer: Answer, error_code: ErrorCode) -> Answer:
    """Return the answer that replaces one whose records could not be stored."""
    match answer.result:
        case JoinResult(member_id=member_id):
            return Answer(answer.reply, JoinResult(error_code, member_id))
        case SyncResult():
            return Answer(answer.reply, SyncResult(error_code))
        case LeaveResult():
            return Answer(answer.reply, LeaveResult(error_code))
        case ConsumerHeartbeatResult():
            return Answer(answer.reply, ConsumerHeartbeatResult(error_code))
        case _:
            return Answer(answer.reply, error_code)
