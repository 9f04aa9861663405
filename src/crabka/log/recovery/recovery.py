"""Opening a log directory: after a clean stop almost nothing is read, after a crash everything unflushed is checked.

Below the recovery point the files are trusted. From the segment that holds it on, every batch is checked (length, CRC,
offsets), a torn tail is cut, later segments are dropped, and indexes, producer state, aborted transactions and
leader epochs are built anew. Runs in a thread per log: it uses no state that logs share.
"""

from __future__ import annotations

import logging
import posixpath
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError, StorageError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import (
    ABORTED_CHECKPOINT,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_offset,
)
from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.formats.transaction_index import IndexNote, encode_aborted, note_of
from crabka.log.dirs.partition_metadata import read_partition_metadata
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.partition.tierable import is_tierable
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import ProducerSnapshots
from crabka.log.recovery.cuts import LogCut
from crabka.log.recovery.loss import LogLoss, find_loss
from crabka.log.recovery.replay import rebuild_producer_state
from crabka.log.recovery.segment_recovery import SegmentRecovery
from crabka.log.segment.aborted_note import read_aborted_note
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from crabka.log.segment.swap import complete_swaps
from crabka.log.segment.txn_rebuild import rebuild_aborted
from crabka.vfs import read_file

if TYPE_CHECKING:
    import uuid

    from crabka.config.topic import TopicConfig
    from crabka.ids import TopicPartition
    from crabka.ports import FileSystem

logger = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000


class OpenOptions(NamedTuple):
    """Facts that the owner of a log dir has about a log before it is open."""

    clean: bool = False
    recovery_point: int = 0
    # From the log start checkpoint; 0 if it has no entry.
    log_start_offset: int = 0
    high_watermark: int = 0
    now_ms: int = 0
    topic_id: uuid.UUID | None = None
    producer_id_expiration_ms: int = DAY_MS


@dataclass(slots=True)
class LoadedLog:
    """The parts of a log that is being opened."""

    path: str
    topic_id: uuid.UUID | None
    segments: Segments
    snapshots: ProducerSnapshots
    leader_epochs: LeaderEpochCache
    producer_state: ProducerStateManager = field(default_factory=ProducerStateManager)
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    high_watermark: int = 0
    now_ms: int = 0
    names_dirty: bool = False
    # Size and checksum of the transaction indexes as they were last noted, by base offset.
    aborted_notes: dict[int, IndexNote] = field(default_factory=dict)
    # The segments that have a transaction index.
    indexed: set[int] = field(default_factory=set)
    # Whether the checkpoint of the leader epochs is missing or damaged.
    epochs_lost: bool = False
    # What recovery removed.
    cuts: list[LogCut] = field(default_factory=list)
    # What is missing of what was durable.
    loss: LogLoss | None = None
    # Whether the log may begin in the remote tier, before the first segment.
    is_tiered: bool = False
    # Whether the disk holds all of this from a clean stop.
    is_settled: bool = False
    # Where records that may be missing at the end ended, as far as it is known; None if nothing is missing. A log
    # without records may have had any: a replaced disk looks like a new one, at every later start as well.
    lost_end_offset: int | None = None


def open_log(
    context: SegmentContext, path: str, topic_partition: TopicPartition, config: TopicConfig, options: OpenOptions
) -> PartitionLog:
    """Open the log in directory `path`, which is created if it is not there.

    Raises StorageError when the disk fails, CorruptDataError when `partition.metadata` contradicts.
    """
    try:
        loaded = _load_parts(context, path, options)
        loaded.is_tiered = context.tiering and is_tierable(topic_partition.topic, config)
        _drop_below(context.fs, path, loaded.segments, options.log_start_offset)
        if options.clean and not _is_torn(loaded, config, options):
            loaded.recovery_point = loaded.log_end_offset
            loaded.is_settled = not loaded.names_dirty
        else:
            SegmentRecovery(context, loaded, config).run(options.recovery_point)
        _settle(context, loaded, config, options)
        loaded.loss = find_loss(
            loaded.log_end_offset,
            recovery_point=options.recovery_point,
            high_watermark=options.high_watermark,
            cuts=loaded.cuts,
            path=loaded.segments.active.log_path,
        )
        _mend_aborted(context.fs, loaded)
        if loaded.names_dirty and loaded.segments.first.base_offset > 0:
            _keep_names(context.fs, path)
    except OSError as error:
        raise StorageError(posixpath.dirname(path), f"{topic_partition}: {error}") from error
    log = PartitionLog(context, topic_partition, config, loaded)
    if log.log_end_offset - log.recovery_point >= config.flush_messages:
        # A kill between write and fsync left records that a producer's repetition would have acknowledged at once.
        log.flush()
    log.durability.settle_descriptor()
    return log


def _load_parts(context: SegmentContext, path: str, options: OpenOptions) -> LoadedLog:
    fs = context.fs
    created = not fs.exists(path)
    if created:
        fs.makedirs(path)
    names = _sweep(fs, path)
    segments = [
        Segment(context, path, offset, fs.stat(f"{path}/{name}").size_bytes)
        for name in names
        if name.endswith(LOG_SUFFIX) and (offset := file_offset(name)) is not None
    ]
    if not segments:
        created = True
        segments.append(Segment(context, path, max(options.log_start_offset, 0), 0))
    epochs = _read_epochs(context, path)
    notes = read_aborted_note(fs, path) if ABORTED_CHECKPOINT in names else {}
    for segment in segments:
        segment.aborts.expect(notes.get(segment.base_offset))
    return LoadedLog(
        path=path,
        topic_id=_topic_id(fs, path, options.topic_id),
        segments=Segments(segments),
        aborted_notes=notes,
        indexed={
            offset for name in names if name.endswith(TXN_INDEX_SUFFIX) and (offset := file_offset(name)) is not None
        },
        snapshots=ProducerSnapshots(fs, path, names, context.cuts),
        leader_epochs=LeaderEpochCache() if epochs is None else epochs,
        epochs_lost=epochs is None,
        names_dirty=created,
        now_ms=options.now_ms,
    )


def _drop_below(fs: FileSystem, path: str, segments: Segments, log_start_offset: int) -> None:
    """Remove segments wholly below the log start: files that were deleted before a crash may have come back."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    for segment in segments.drop_first(count):
        segment.delete_now()
    if count:
        # The next checkpoint may omit the log start, since it follows from the files: none of these may come back.
        fs.fsync_dir(path)


def _keep_names(fs: FileSystem, path: str) -> None:
    """Make a segment that was created at the log start durable: the next checkpoint leaves the log start out for it."""
    fs.fsync_dir(path)
    fs.fsync_dir(posixpath.dirname(path))


def _sweep(fs: FileSystem, path: str) -> list[str]:
    """Complete swaps and remove leftovers (deleted and temporary files, indexes without a log); return the rest."""
    complete_swaps(fs, path)
    names = fs.listdir(path)
    logs = {name[: -len(LOG_SUFFIX)] for name in names if name.endswith(LOG_SUFFIX)}
    kept = []
    for name in names:
        offset = file_offset(name)
        orphan = offset is not None and not name.endswith(SNAPSHOT_SUFFIX) and name.split(".")[0] not in logs
        if orphan or name.endswith((DELETED_SUFFIX, ".tmp")):
            fs.unlink(f"{path}/{name}")
        else:
            kept.append(name)
    return kept


def _topic_id(fs: FileSystem, path: str, expected: uuid.UUID | None) -> uuid.UUID | None:
    """Return the topic id of the directory; a missing file is written if the id is known."""
    metadata_path = f"{path}/{PARTITION_METADATA}"
    try:
        found = read_partition_metadata(fs, metadata_path)
    except CorruptDataError:
        if expected is not None:
            raise
        # The metadata of the cluster has its topic (`LogHealing.adopt`).
        return None
    if found is None and expected is not None:
        file = fs.open(metadata_path, create=True)
        try:
            file.pwritev([encode_partition_metadata(expected)], 0)
        finally:
            file.close()
        return expected
    if expected is not None and found != expected:
        raise CorruptDataError(metadata_path, f"belongs to topic id {found}, not {expected}")
    return found


def _read_epochs(context: SegmentContext, path: str) -> LeaderEpochCache | None:
    """Return the known leader epochs, None if their checkpoint is missing or damaged."""
    checkpoint = f"{path}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return LeaderEpochCache(decode_epochs(read_file(context.fs, checkpoint), checkpoint))
    except FileNotFoundError:
        return None
    except CorruptDataError as error:
        context.cuts.note_rebuilt(checkpoint, error)
        return None


def _is_torn(loaded: LoadedLog, config: TopicConfig, options: OpenOptions) -> bool:
    """Find the log end in the last segment; return True if its last bytes are not a whole batch."""
    active = loaded.segments.active
    active.activate(active.load_indexes(), config, options.now_ms)
    end = active.indexes().offsets.last_position
    loaded.log_end_offset = active.base_offset
    for position, header in active.headers(end):
        end = position + header.size_in_bytes
        loaded.log_end_offset = header.next_offset
        if header.max_timestamp > active.max_timestamp:
            active.max_timestamp, active.max_timestamp_offset = header.max_timestamp, header.last_offset
    return end != active.size


def _settle(context: SegmentContext, loaded: LoadedLog, config: TopicConfig, options: OpenOptions) -> None:
    """Make the offsets agree with each other and load the producer state."""
    first = loaded.segments.first.base_offset
    loaded.log_start_offset = options.log_start_offset if loaded.is_tiered else max(options.log_start_offset, first)
    if loaded.log_start_offset > loaded.log_end_offset:
        _restart_at(context, loaded, config, loaded.log_start_offset)
    # A crash may have kept the log start and lost the epochs that were cut with it.
    loaded.leader_epochs.truncate_from_start(loaded.log_start_offset)
    start = max(loaded.log_start_offset, loaded.segments.first.base_offset)
    _refill_epochs(loaded, start)
    loaded.high_watermark = min(max(options.high_watermark, start), loaded.log_end_offset)
    known_end = max(options.recovery_point, options.high_watermark)
    if loaded.log_end_offset < known_end or loaded.log_end_offset <= start:
        loaded.lost_end_offset = known_end
    loaded.recovery_point = min(loaded.recovery_point, loaded.log_end_offset)
    loaded.snapshots.remove_strays(loaded.segments.bases)
    if loaded.producer_state.map_end_offset == loaded.log_end_offset:
        # Recovery has replayed every batch already.
        loaded.snapshots.remove_outside(start, loaded.log_end_offset)
    else:
        rebuild_producer_state(
            loaded.producer_state, loaded.snapshots, loaded.segments, start=start, end=loaded.log_end_offset
        )
    loaded.producer_state.remove_expired(options.now_ms, options.producer_id_expiration_ms)
    loaded.producer_state.on_high_watermark(loaded.high_watermark)


def _mend_aborted(fs: FileSystem, loaded: LoadedLog) -> None:
    """Rebuild the transaction indexes that are damaged, and those that are lost although the note lists them.

    One that needs a batch which is damaged stays as it is: read_committed consumers cannot read the segment before that
    batch is repaired.
    """
    for segment in loaded.segments:
        if segment.base_offset not in loaded.indexed and segment.noted is None:
            continue
        try:
            segment.aborted()
        except CorruptDataError as error:
            rebuilt = rebuild_aborted(fs, list(loaded.segments), loaded.snapshots, segment)
            if rebuilt.gap:
                logger.warning("%s, and it cannot be rebuilt from the log: %s", error, rebuilt.gap)
                segment.aborts.hold(rebuilt.entries)
                continue
            segment.aborts.replace(rebuilt.entries)
            loaded.aborted_notes[segment.base_offset] = note_of(encode_aborted(rebuilt.entries))
            loaded.names_dirty = True
            logger.warning("%s: rebuilt from the log with %d aborted transactions", error, len(rebuilt.entries))
        segment.forget_aborted()


def _refill_epochs(loaded: LoadedLog, start: int) -> None:
    """Find the epochs of the first records again: a crash may have kept that they were cut and lost the log start.

    So are all of them if their checkpoint is lost, or the last segment contradicts it. Without them the records could
    neither be compared with a leader's nor be copied to the remote tier.
    """
    known = loaded.leader_epochs.entries
    if _contradicts_epochs(loaded, start):
        logger.warning("%s/%s is wrong: read from the batches", loaded.path, LEADER_EPOCH_CHECKPOINT)
        known, loaded.epochs_lost = [], True
    if known[0][1] <= start if known else not loaded.epochs_lost:
        return
    found: list[tuple[int, int]] = []
    for segment in loaded.segments:
        if known and segment.base_offset >= known[0][1]:
            break
        for _, header in segment.headers(0):
            while found and found[-1][0] > header.partition_leader_epoch >= 0:
                # Epochs never fall: the one before was damaged, which its checksum does not cover.
                found.pop()
            if header.last_offset >= start and (not found or found[-1][0] != header.partition_leader_epoch):
                found.append((header.partition_leader_epoch, max(header.base_offset, start)))
    epochs = LeaderEpochCache()
    for epoch, offset in [*found, *known]:
        epochs.assign(epoch, offset)
    loaded.leader_epochs = epochs


def _contradicts_epochs(loaded: LoadedLog, start: int) -> bool:
    """Return whether most of the first and the last batches of the last segment have other epochs than it is said.

    A checkpoint has no checksum. With a wrong last epoch the log would be cut where it does not part from the leader's.
    """
    active, epochs = loaded.segments.active, loaded.leader_epochs
    if not active.size or loaded.epochs_lost:
        return False
    ends = [*islice(active.headers(0), 1), *active.headers(active.indexes().offsets.last_position)]
    headers = [header for _, header in ends if header.partition_leader_epoch >= 0 and header.base_offset >= start]
    wrong = sum(epochs.lineage.epoch_at(each.base_offset) != each.partition_leader_epoch for each in headers)
    return wrong * 2 > len(headers)


def _restart_at(context: SegmentContext, loaded: LoadedLog, config: TopicConfig, offset: int) -> None:
    """Begin anew at the log start: the crash took all records that were not deleted already."""
    end = loaded.log_end_offset
    for segment in loaded.segments.drop_from(0):
        if segment.size:
            # Below the log start all was deleted before: nothing is lost here.
            reason = f"the log starts at {offset}, and its records end at {end}"
            context.cuts.note_cut(LogCut(segment.log_path, 0, segment.size, segment.base_offset, reason))
        segment.delete_now()
    segment = Segment(context, loaded.path, offset, 0)
    segment.activate(segment.empty_indexes(), config, loaded.now_ms)
    loaded.segments.add(segment)
    loaded.log_end_offset = offset
    loaded.names_dirty = True
    loaded.leader_epochs.truncate_from_end(offset)
