"""Checks the content of one segment: every batch, and that all that lies beside the log agrees with it.

Reads the tier through its RemoteStorageManager alone. Constant memory: the log streams by once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.leader_epochs import EpochLineage, Epochs, epochs_rise, format_epochs
from crabka.formats.producer_snapshot import decode_producers, open_transactions
from crabka.remote.errors import InvalidRangeError, RemoteStorageError, SegmentNotFoundError, TruncatedObjectError
from crabka.remote.scrub.batches import BrokenBatchError, WalkedBatch, walk_batches
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.scrub.index_files import (
    IndexFollower,
    OffsetIndexFollower,
    Report,
    TimeIndexFollower,
    TransactionIndexFollower,
)
from crabka.remote.scrub.side_files import check_epoch_checkpoint, check_producer_snapshot
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata

if TYPE_CHECKING:
    from crabka.ports import Buffer
    from crabka.remote.storage_manager import RemoteStorageManager

LOG: Final = LOG_SUFFIX
OnBytes = Callable[[int], None]
Fingerprints = dict[tuple[int, int], tuple[int, int]]
"""(leader epoch, base offset) -> (checksum, length) of batches."""


@dataclass(slots=True)
class SegmentFindings:
    """What a check of one segment found: the first fault of each kind and object, and how many more there were.

    `checkpoint` has the leader epochs that lie beside the log, none if they cannot be read.
    """

    metadata: RemoteLogSegmentMetadata
    fingerprints: Fingerprints = field(default_factory=dict)
    checkpoint: Epochs = ()
    _faults: dict[tuple[TierFaultKind, str], str] = field(default_factory=dict)
    _counts: Counter[tuple[TierFaultKind, str]] = field(default_factory=Counter)

    def add(self, kind: TierFaultKind, part: str, detail: str) -> None:
        """Note a fault of a part, which is the suffix of an object's name; empty for the segment as such."""
        self._faults.setdefault((kind, part), detail)
        self._counts[kind, part] += 1

    def lose_log(self) -> None:
        """Note that the log is missing. Storages may hide other parts of such a segment, so these are not reported."""
        self._faults = {
            key: detail for key, detail in self._faults.items() if key[0] is not TierFaultKind.MISSING_OBJECT
        }
        self.add(TierFaultKind.MISSING_OBJECT, LOG, "is not there")

    def reporter(self, kind: TierFaultKind, part: str) -> Report:
        """Return a function that notes faults of a kind."""
        return lambda detail: self.add(kind, part, detail)

    @property
    def faults(self) -> list[TierFault]:
        """The faults in the order in which they were found."""
        return [
            TierFault(
                kind=kind,
                detail=(f"{part}: " if part else "") + detail + self._more(kind, part),
                partition=self.metadata.topic_id_partition,
                segment_id=self.metadata.segment_id,
            )
            for (kind, part), detail in self._faults.items()
        ]

    def _more(self, kind: TierFaultKind, part: str) -> str:
        more = self._counts[kind, part] - 1
        return f" (and {more} more)" if more else ""


def check_segment(
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    *,
    on_bytes: OnBytes = lambda _count: None,
    remember: range = range(0),
    before: RemoteLogSegmentMetadata | None = None,
) -> SegmentFindings:
    """Read a finished segment as a whole and return what is wrong with it.

    `on_bytes` receives the number of bytes that were read. Batches that begin at offsets in `remember` are kept as
    fingerprints, to be compared with those of another segment. `before` is the segment that ends where this one
    begins: its producer snapshot says which transactions are open there.
    """
    findings = SegmentFindings(metadata)
    check_metadata(metadata, findings)
    _check_side_objects(storage, metadata, findings)
    followers = list(_index_followers(storage, metadata, findings, before))
    order = _OffsetOrder(metadata, findings)
    received = 0

    def count(byte_count: int) -> None:
        nonlocal received
        received += byte_count
        on_bytes(byte_count)

    try:
        with closing(_counted(storage, metadata, count)) as pieces:
            for batch in walk_batches(pieces, metadata.segment_size_bytes):
                order.see(batch)
                for follower in followers:
                    follower.see(batch)
                header = batch.header
                if header.base_offset in remember:
                    key = header.partition_leader_epoch, header.base_offset
                    findings.fingerprints[key] = header.crc, header.batch_length
            next(pieces, None)
            if received > metadata.segment_size_bytes:
                findings.add(TierFaultKind.WRONG_SIZE, LOG, f"is longer than {metadata.segment_size_bytes} bytes")
    except BrokenBatchError as error:
        findings.add(TierFaultKind.CORRUPT_BATCH, LOG, f"{error}, after offset {order.next_offset - 1}")
    except SegmentNotFoundError:
        findings.lose_log()
    except (InvalidRangeError, TruncatedObjectError) as error:
        findings.add(TierFaultKind.WRONG_SIZE, LOG, str(error))
    except RemoteStorageError as error:
        findings.add(TierFaultKind.UNREADABLE, LOG, str(error))
    else:
        order.finish()
        for follower in followers:
            follower.finish()
    return findings


def check_metadata(metadata: RemoteLogSegmentMetadata, findings: SegmentFindings) -> None:
    """Check that what the metadata says of a segment is possible."""
    epochs = metadata.leader_epochs
    if not epochs_rise(epochs):
        findings.add(TierFaultKind.EPOCHS_IN_SEGMENT, "", f"its epochs overlap: {format_epochs(epochs)}")
    if epochs[0][1] < metadata.start_offset or epochs[-1][1] > metadata.end_offset:
        text = f"its epochs {format_epochs(epochs)} reach out of {metadata.start_offset}..{metadata.end_offset}"
        findings.add(TierFaultKind.EPOCHS_IN_SEGMENT, "", text)


def _counted(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, on_bytes: OnBytes
) -> Generator[Buffer, None, None]:
    stream = storage.stream_log_segment(metadata, 0)
    try:
        for piece in stream:
            on_bytes(len(piece))
            yield piece
    finally:
        # A caller that stops before the end frees the connection.
        close = getattr(stream, "close", None)
        if close is not None:
            close()


def _index_followers(
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    findings: SegmentFindings,
    before: RemoteLogSegmentMetadata | None,
) -> Iterator[IndexFollower]:
    base = metadata.start_offset
    offsets = _fetch(storage, metadata, IndexType.OFFSET, findings)
    times = _fetch(storage, metadata, IndexType.TIMESTAMP, findings)
    if offsets is not None:
        report = findings.reporter(TierFaultKind.BAD_INDEX, IndexType.OFFSET.value)
        yield OffsetIndexFollower(offsets, base, report, times or b"")
    if times is not None:
        yield TimeIndexFollower(times, base, findings.reporter(TierFaultKind.BAD_INDEX, IndexType.TIMESTAMP.value))
    # A segment without aborts has no index; the log is asked all the same whether that is true.
    data = _fetch(storage, metadata, IndexType.TRANSACTION, findings, optional=metadata.txn_index_empty)
    report = findings.reporter(TierFaultKind.BAD_INDEX, IndexType.TRANSACTION.value)
    if data and metadata.txn_index_empty:
        report("has entries, the metadata says that there are none")
    if data is not None:
        yield TransactionIndexFollower(data, base, report, _open_at_start(storage, findings, before))


def _open_at_start(
    storage: RemoteStorageManager, findings: SegmentFindings, before: RemoteLogSegmentMetadata | None
) -> dict[int, int] | None:
    """Return the transactions that are open where a segment begins, None if nothing says so for certain."""
    if findings.metadata.start_offset == 0:
        return {}
    # After an unclean election the segment before may be of another history.
    if before is None or EpochLineage(findings.checkpoint).epoch_at(before.end_offset) != before.leader_epochs[-1][0]:
        return None
    try:
        return open_transactions(decode_producers(storage.fetch_index(before, IndexType.PRODUCER_SNAPSHOT)))
    except (RemoteStorageError, CorruptDataError):
        return None  # the check of that segment reports it


def _check_side_objects(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, findings: SegmentFindings
) -> None:
    data = _fetch(storage, metadata, IndexType.LEADER_EPOCH, findings)
    if data is not None:
        report = findings.reporter(TierFaultKind.BAD_INDEX, IndexType.LEADER_EPOCH.value)
        check_epoch_checkpoint(data, metadata, report)
        with suppress(CorruptDataError):
            findings.checkpoint = tuple(decode_epochs(data))
    data = _fetch(storage, metadata, IndexType.PRODUCER_SNAPSHOT, findings)
    if data is not None:
        report = findings.reporter(TierFaultKind.BAD_INDEX, IndexType.PRODUCER_SNAPSHOT.value)
        check_producer_snapshot(data, metadata, report)


def _fetch(
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    index_type: IndexType,
    findings: SegmentFindings,
    *,
    optional: bool = False,
) -> bytes | None:
    try:
        return storage.fetch_index(metadata, index_type)
    except SegmentNotFoundError:
        if optional:
            return b""
        findings.add(TierFaultKind.MISSING_OBJECT, index_type.value, "is not there")
    except RemoteStorageError as error:
        findings.add(TierFaultKind.UNREADABLE, index_type.value, str(error))
    return None


class _OffsetOrder:
    """Checksums, and offsets, epochs and timestamps of batches against the metadata of their segment."""

    def __init__(self, metadata: RemoteLogSegmentMetadata, findings: SegmentFindings) -> None:
        self._metadata = metadata
        self._findings = findings
        self._epochs = list(metadata.leader_epochs)
        # What lies before was below the log start when the segment was copied; its epochs were forgotten.
        self._epoch, self._first_known = self._epochs.pop(0)
        self._largest_timestamp = -1
        self.next_offset = metadata.start_offset

    def see(self, batch: WalkedBatch) -> None:
        header = batch.header
        if not batch.crc_valid:
            detail = f"the batch of offset {header.base_offset} at position {batch.position} has a wrong checksum"
            self._findings.add(TierFaultKind.CORRUPT_BATCH, LOG, detail)
        if header.base_offset != self.next_offset:
            detail = f"a batch begins with offset {header.base_offset} where {self.next_offset} is due"
            self._findings.add(TierFaultKind.OFFSETS_IN_SEGMENT, LOG, detail)
        self.next_offset = header.next_offset
        while self._epochs and self._epochs[0][1] <= header.base_offset:
            self._epoch = self._epochs.pop(0)[0]
        if header.base_offset >= self._first_known and header.partition_leader_epoch != self._epoch:
            detail = f"offset {header.base_offset} is of epoch {header.partition_leader_epoch}"
            self._findings.add(TierFaultKind.EPOCHS_IN_SEGMENT, LOG, f"{detail}, the metadata says {self._epoch}")
        self._largest_timestamp = max(self._largest_timestamp, header.max_timestamp)

    def finish(self) -> None:
        end, said = self.next_offset - 1, self._metadata.end_offset
        if end != said:
            self._findings.add(TierFaultKind.OFFSETS_IN_SEGMENT, LOG, f"ends with offset {end}, not with {said}")
        largest, said = self._largest_timestamp, self._metadata.max_timestamp_ms
        # Without timestamps in the records a broker takes the time of the file.
        if largest >= 0 and said not in (largest, -1):
            detail = f"the largest timestamp is {largest}, the metadata says {said}"
            self._findings.add(TierFaultKind.METADATA_MISMATCH, LOG, detail)
