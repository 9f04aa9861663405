"""What a log knows of its producers: epochs, the last five batches, open transactions (KIP-98, KIP-360).

Follows Kafka's ProducerStateManager, in memory only: `producer_snapshots` has the file form. Checks and changes are
apart: `check` refuses or recognises a batch before it is written, `apply` takes it in afterwards, so a failed
write leaves no trace. Replay of a log only applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from crabka.errors import OperationError
from crabka.log.producers.verification import EPOCH_BUMP_VERSION, NOT_REQUIRED, Verification
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker
from crabka.records.header import MAX_SEQUENCE, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL_FLAG, BatchHeader

RETAINED_BATCHES: Final = 5
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
MAX_EPOCH: Final = 32767
_new_tuple = tuple.__new__


class AppendOrigin(Enum):
    """Who writes a batch, which decides how far it is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class BatchMark(NamedTuple):
    """One appended batch, as much of it as is needed to know it again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; counts wrap from 2^31-1 to 0."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE if self.last_sequence >= 0 else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer id in one log."""

    __slots__ = (
        "batches",
        "chain_first_sequence",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        # First offset of the open transaction, -1 if none is open.
        self.txn_first_offset = NO_OFFSET
        # Oldest first, at most five, all of `epoch`.
        self.batches: list[BatchMark] = []
        # All sequences from this one to the last were seen in this epoch without a gap.
        self.chain_first_sequence = NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record of the epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def current_txn_first_offset(self) -> int | None:
        """First offset of the open transaction, None if none is open."""
        return self.txn_first_offset if self.txn_first_offset >= 0 else None

    def find_duplicate(self, header: BatchHeader) -> BatchMark | None:
        """Return the retained batch with exactly this epoch and these sequences."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = (header.base_sequence + header.last_offset_delta) & MAX_SEQUENCE
        for mark in self.batches:
            if mark.last_sequence == last_sequence and mark.first_sequence == header.base_sequence:
                return mark
        return None

    def precedes_retained(self, first_sequence: int, last_sequence: int) -> bool:
        """Return whether the sequences were appended before the oldest retained batch, beyond doubt."""
        if not self.batches:
            return False
        known = (self.batches[0].first_sequence - self.chain_first_sequence) & MAX_SEQUENCE
        first = (first_sequence - self.chain_first_sequence) & MAX_SEQUENCE
        last = (last_sequence - self.chain_first_sequence) & MAX_SEQUENCE
        return first <= last < known

    def move_to_epoch(self, epoch: int) -> None:
        """Forget the batches of an earlier epoch."""
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch


class ProducerStateManager:
    """All producers of a log. Offsets passed to `apply` never fall."""

    __slots__ = ("_ongoing", "_unreplicated", "entries", "map_end_offset", "verifications")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # By producer id, until its first batch of the transaction or a marker is appended.
        self.verifications: dict[int, Verification] = {}
        # The state covers the log up to here (exclusive).
        self.map_end_offset = 0
        # First offset -> producer id of open transactions, in the order of the first offsets.
        self._ongoing: dict[int, int] = {}
        # First offset -> marker offset of ended transactions whose marker is not below the high watermark.
        self._unreplicated: dict[int, int] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose outcome is open, or decided by a marker that is not replicated yet."""
        if not self._ongoing:
            return min(self._unreplicated) if self._unreplicated else None
        first = next(iter(self._ongoing))
        return min(first, *self._unreplicated) if self._unreplicated else first

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of an open transaction."""
        return next(iter(self._ongoing), None)

    def active_producers(self) -> list[ProducerEntry]:
        """Return the known producers (DescribeProducers)."""
        return list(self.entries.values())

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a transaction of the producer is open in this log, begun in this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.producer_epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, *, sequence: int, now_ms: int, supports_epoch_bump: bool
    ) -> Verification | None:
        """Return the guard of a batch whose transaction must be verified, None if it is open here already.

        Raises OperationError (INVALID_PRODUCER_EPOCH) for a producer that is fenced.
        """
        entry = self.entries.get(producer_id)
        if entry is not None:
            _check_epoch(entry, epoch)
        if self.has_open_transaction(producer_id, epoch):
            return None
        guard = self.verifications.get(producer_id)
        if guard is None:
            guard = Verification(epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump)
            self.verifications[producer_id] = guard
        guard.note(epoch, sequence)
        return guard

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        *,
        verify_sequence: bool = True,
        guard: Verification | None = NOT_REQUIRED,
    ) -> BatchMark | None:
        """Return the earlier batch if this one is its repetition, None if it is new and fits.

        The first batch of a transaction must bring the guard of its verification. Raises OperationError:
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            _check_first_epoch(header.producer_id, header.producer_epoch)
        if header.attributes & TRANSACTIONAL_FLAG:
            in_sequence = origin is AppendOrigin.CLIENT and verify_sequence
            return self._check_transactional(entry, header, guard, in_sequence=in_sequence)
        if entry is None:
            # Without state any sequence is accepted: retention or expiry may have taken the state (KIP-360).
            return None
        batches = entry.batches
        if (
            batches
            and header.base_sequence == (batches[-1][0] + 1) & MAX_SEQUENCE
            and header.producer_epoch == entry.producer_epoch
            and entry.txn_first_offset < 0
        ):
            # The next batch of a producer without a transaction: by far the most frequent case.
            return None
        if origin is AppendOrigin.CLIENT and verify_sequence:
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        _check_epoch(entry, header.producer_epoch)
        if origin is AppendOrigin.CLIENT and verify_sequence:
            _check_sequence(entry, header)
        if entry.txn_first_offset >= 0:
            raise OperationError(
                ErrorCode.invalid_txn_state, f"Expected transactional write from producer {header.producer_id}"
            )
        return None

    def _check_transactional(
        self, entry: ProducerEntry | None, header: BatchHeader, guard: Verification | None, *, in_sequence: bool
    ) -> BatchMark | None:
        duplicate = entry.find_duplicate(header) if entry is not None and in_sequence else None
        if duplicate is not None:
            return duplicate
        verification = self.verifications.get(header.producer_id)
        is_vouched_for = guard is NOT_REQUIRED or (guard is not None and guard is verification)
        if not is_vouched_for and not self.has_open_transaction(header.producer_id, header.producer_epoch):
            raise OperationError(ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction")
        if entry is not None:
            _check_epoch(entry, header.producer_epoch)
        if in_sequence and verification is not None:
            _check_first_sequence(entry, header, verification)
        if in_sequence and entry is not None:
            _check_sequence(entry, header)
        return None

    def check_marker(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, transaction_version: int = 0
    ) -> None:
        """Raise OperationError when a marker comes from a fenced producer or an old coordinator."""
        entry = self.entries.get(producer_id)
        if entry is None:
            _check_first_epoch(producer_id, epoch)
            return
        _check_epoch(entry, epoch)
        if transaction_version >= EPOCH_BUMP_VERSION and epoch == entry.producer_epoch:
            _check_repeated_marker(entry)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise OperationError(
                ErrorCode.transaction_coordinator_fenced,
                f"Invalid coordinator epoch for producerId {producer_id}: {marker.coordinator_epoch} (zombie), "
                f"{entry.coordinator_epoch} (current)",
            )

    def apply(self, header: BatchHeader, first_offset: int) -> None:
        """Take in a data batch that was written at `first_offset`."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif entry.producer_epoch != header.producer_epoch:
            entry.move_to_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        base_sequence = header.base_sequence
        batches = entry.batches
        if not batches:
            entry.chain_first_sequence = base_sequence
        elif len(batches) == RETAINED_BATCHES:
            del batches[0]
        last_sequence = (base_sequence + delta) & MAX_SEQUENCE if base_sequence >= 0 else NO_SEQUENCE
        batches.append(_new_tuple(BatchMark, (last_sequence, first_offset + delta, delta, header.max_timestamp)))
        entry.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_FLAG:
            self.verifications.pop(producer_id, None)
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = first_offset
                self._ongoing[first_offset] = producer_id

    def apply_marker(
        self, header: BatchHeader, offset: int, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        """Take in an end marker written at `offset`; return the transaction that it ends, if one was open."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        verification = self.verifications.get(producer_id)
        if verification is not None and not verification.survives_marker(header.producer_epoch):
            del self.verifications[producer_id]
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        first_offset, entry.txn_first_offset = entry.txn_first_offset, NO_OFFSET
        if first_offset < 0:
            # A transaction without data changes nothing for readers.
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        return CompletedTransaction(producer_id, first_offset, offset, not marker.committed)

    def apply_emptied_marker(self, header: BatchHeader) -> None:
        """Take in what compaction left of an end marker: the producer's epoch, and that its transaction is over."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        entry.move_to_epoch(header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        self._ongoing.pop(entry.txn_first_offset, None)
        entry.txn_first_offset = NO_OFFSET

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the stable end right after a transaction was ended, as the transaction index records it."""
        return next(iter(self._ongoing), completed.last_offset + 1)

    def on_high_watermark(self, offset: int) -> None:
        """Forget ended transactions whose markers are replicated, so that the last stable offset moves on."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent for `expiration_ms` and have no open transaction, and old questions."""
        expired = [entry.producer_id for entry in self.entries.values() if _is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self.entries[producer_id]
        if self.verifications:
            self.verifications = {
                producer_id: each
                for producer_id, each in self.verifications.items()
                if now_ms - each.started_ms < expiration_ms
            }

    def load(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Replace everything by the content of a snapshot taken at `end_offset`."""
        self.entries = {entry.producer_id: entry for entry in entries}
        opened = ((e.txn_first_offset, e.producer_id) for e in self.entries.values() if e.txn_first_offset >= 0)
        self._ongoing = dict(sorted(opened))
        self._unreplicated = {}
        self.map_end_offset = end_offset


def _check_epoch(entry: ProducerEntry, epoch: int) -> None:
    if epoch < entry.producer_epoch:
        raise _old_epoch(entry.producer_id, epoch, entry.producer_epoch)


def _check_first_epoch(producer_id: int, epoch: int) -> None:
    # As in Kafka, where a producer without state has epoch -1.
    if epoch < NO_EPOCH:
        raise _old_epoch(producer_id, epoch, NO_EPOCH)


def _old_epoch(producer_id: int, epoch: int, last_seen: int) -> OperationError:
    return OperationError(
        ErrorCode.invalid_producer_epoch,
        f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {last_seen}",
    )


def _check_repeated_marker(entry: ProducerEntry) -> None:
    # A marker that is sent again finds its transaction ended. At the last epoch there is no higher one to bump to.
    if entry.txn_first_offset >= 0 and entry.producer_epoch != MAX_EPOCH:
        raise OperationError(
            ErrorCode.invalid_producer_epoch,
            f"Epoch of producer {entry.producer_id} in a marker is {entry.producer_epoch}, which is not above the last "
            "seen epoch",
        )


def _check_first_sequence(entry: ProducerEntry | None, header: BatchHeader, verification: Verification) -> None:
    first = header.base_sequence
    if verification.supports_epoch_bump and first != 0 and (entry is None or not entry.batches):
        raise _out_of_order(header.producer_id, first, "the first batch of an epoch has sequence 0")
    if first > verification.lowest_sequence:
        raise _out_of_order(header.producer_id, first, f"{verification.lowest_sequence} (earliest seen sequence)")


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    first = header.base_sequence
    if header.producer_epoch != entry.producer_epoch:
        if first != 0:
            raise _out_of_order(entry.producer_id, first, "a new epoch starts with sequence 0")
        return
    last = entry.last_sequence
    if first == (last + 1) & MAX_SEQUENCE:
        return
    if entry.precedes_retained(first, (first + header.last_offset_delta) & MAX_SEQUENCE):
        raise OperationError(
            ErrorCode.duplicate_sequence_number,
            f"Sequence {first} of producer {entry.producer_id} was appended before and is no longer retained",
        )
    raise _out_of_order(entry.producer_id, first, f"{last} (current end sequence number)")


def _out_of_order(producer_id: int, sequence: int, detail: str) -> OperationError:
    return OperationError(
        ErrorCode.out_of_order_sequence_number,
        f"Out of order sequence number for producer {producer_id}: {sequence} (incoming seq. number), {detail}",
    )


def _is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
