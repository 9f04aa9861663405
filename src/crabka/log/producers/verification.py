"""What a log knows of transactions that are being verified with the coordinator (KIP-890).

The first batch of a transaction may enter a partition only after the coordinator said that the partition belongs to
it. The object that stands for the question is the guard: if the transaction ends before the answer comes, the log
forgets the guard, and a batch that still carries it is refused. Nothing of this is kept on disk.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# Clients that bump their epoch with every transaction say so by the version of their requests.
EPOCH_BUMP_VERSION: Final = 2


class Verification:
    """A question that is under way, and the guard of the batches that wait for its answer. Compared by identity."""

    __slots__ = ("epoch", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, started_ms: int, *, supports_epoch_bump: bool) -> None:
        self.epoch = epoch
        # A later batch must not enter before this one, or this one could never enter.
        self.lowest_sequence = sequence
        self.started_ms = started_ms
        self.supports_epoch_bump = supports_epoch_bump

    def note(self, epoch: int, sequence: int) -> None:
        """Take in another batch that waits: a lower sequence counts, and a higher epoch starts anew."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def survives_marker(self, epoch: int) -> bool:
        """Return whether a marker belongs to the transaction before the one that is being verified.

        A producer that bumps its epoch with every transaction may be ahead of the marker of its last one, which
        already has the new epoch.
        """
        return self.supports_epoch_bump and epoch == self.epoch


# For batches whose transaction need not be known: verification is off, or the log is not fed by clients.
NOT_REQUIRED: Final = Verification(-1, -1, 0, supports_epoch_bump=False)


class AppendTerms(NamedTuple):
    """Under which terms a batch of a transaction is appended."""

    guard: Verification | None = NOT_REQUIRED
    # Of the coordinator that sent a marker. From 2 on its epoch is above that of the data.
    transaction_version: int = 0


ANY_TERMS: Final = AppendTerms()
