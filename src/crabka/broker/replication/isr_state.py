"""The ISR of a partition as its leader sees it, while a change is on its way to the controller (KIP-497).

A leader proposes and the controller decides. Until the answer is there, a proposal may be in force or not, so safety
goes by the *maximal* ISR: everybody who is or may be in it must have a record before it counts as replicated. One
proposal is out at a time. PURE.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from crabka.errors import require
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabka.metadata.topics import PartitionImage

# The controller refused the proposal and the ISR is what it was before.
_REVERTING = frozenset({ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted})
# The leader is not what it believes to be. Metadata that says so is on its way; until then nothing may be assumed.
_AWAITING_METADATA = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


class ProposalFate(Enum):
    """What an answer of the controller means."""

    # The ISR is as the answer says.
    COMMITTED = "committed"
    # The ISR is as it was; another proposal may be made.
    REVERTED = "reverted"
    # The same proposal must be sent again.
    RETRY = "retry"
    # No more proposals until new metadata is here.
    AWAITS_METADATA = "awaits metadata"
    # The answer is about a state that is past.
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """A change on its way."""

    isr: tuple[int, ...]
    partition_epoch: int


class IsrState:
    """The ISR in one leader epoch."""

    def __init__(self, partition: PartitionImage) -> None:
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch
        self.isr = partition.isr
        self.pending: ProposedIsr | None = None

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who is in the ISR or may be in it by now."""
        return frozenset(self.isr) if self.pending is None else frozenset((*self.isr, *self.pending.isr))

    def propose(self, isr: Collection[int]) -> ProposedIsr:
        """Note a proposal that goes out now; none may be out already."""
        require(self.pending is None, "one ISR change at a time")
        self.pending = ProposedIsr(tuple(isr), self.partition_epoch)
        return self.pending

    def answered(
        self, proposal: ProposedIsr, error_code: ErrorCode, partition: PartitionImage | None = None
    ) -> ProposalFate:
        """Take over the answer to a proposal; `partition` is its new state if there was no error."""
        if proposal is not self.pending:
            return ProposalFate.OUTDATED
        if error_code is ErrorCode.none and partition is not None:
            return self._committed(partition)
        if error_code in _REVERTING:
            self.pending = None
            return ProposalFate.REVERTED
        return ProposalFate.AWAITS_METADATA if error_code in _AWAITING_METADATA else ProposalFate.RETRY

    def published(self, partition: PartitionImage) -> bool:
        """Take over metadata of the same leader epoch; False if it is older than what is known."""
        require(partition.leader_epoch == self.leader_epoch, "another leader epoch needs another state")
        if partition.partition_epoch < self.partition_epoch:
            return False
        if partition.partition_epoch > self.partition_epoch:
            self._take(partition)
        return True

    def _committed(self, partition: PartitionImage) -> ProposalFate:
        if partition.leader_epoch != self.leader_epoch or partition.partition_epoch < self.partition_epoch:
            return ProposalFate.AWAITS_METADATA
        self._take(partition)
        return ProposalFate.COMMITTED

    def _take(self, partition: PartitionImage) -> None:
        self.isr = partition.isr
        self.partition_epoch = partition.partition_epoch
        self.pending = None
