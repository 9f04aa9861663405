"""The check of a log directory from outside, of a node that is stopped or runs. Reads only.

Finds what the check of a running node finds (`segment_check`, `small_files_check`), by files alone. The last segment is
checked up to the end of its file; while a node runs it may be written to, so what seems damaged at its very end may be
an append on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    DirectoryKind,
    file_offset,
    parse_directory_name,
)
from crabka.log.dirs.partition_metadata import read_partition_metadata
from crabka.log.healing.segment_check import CheckTarget, LogCheckFindings, SegmentCheck
from crabka.log.producers.snapshots import ProducerSnapshots
from crabka.log.segment.aborted_note import read_aborted_note
from crabka.log.segment.batch_walk import OffsetRules
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.segment import Segment
from crabka.vfs import read_file

if TYPE_CHECKING:
    from crabka.ports import FileSystem

_ENDLESS: Final = 1 << 62
_ANY_EPOCH: Final = (1 << 31) - 1


class Problem(NamedTuple):
    """Something that is wrong in a log; offsets are -1 unless batches are damaged."""

    log: str
    file: str
    reason: str
    offset: int = -1
    end_offset: int = -1
    # Whether it is the end of the last segment, which a running node may be writing.
    is_at_end: bool = False


def log_directories(fs: FileSystem, log_dir: str) -> list[str]:
    """Return the names of the logs in a log dir."""
    parsed = ((name, parse_directory_name(name)) for name in sorted(fs.listdir(log_dir)))
    return [
        name
        for name, found in parsed
        if found is not None and found.kind is DirectoryKind.LOG and fs.stat(f"{log_dir}/{name}").is_dir
    ]


def check_directory(fs: FileSystem, directory: str) -> Iterator[Problem]:
    """Check one log; yields what is wrong with it. Raises OSError."""
    name = directory.rpartition("/")[2]
    names = fs.listdir(directory)
    bases = sorted(offset for each in names if each.endswith(LOG_SUFFIX) and (offset := file_offset(each)) is not None)
    context = SegmentContext(fs)
    notes = read_aborted_note(fs, directory)
    snapshots = ProducerSnapshots(fs, directory, names)
    segments = []
    for base in bases:
        size = fs.stat(f"{directory}/{base:020d}{LOG_SUFFIX}").size_bytes
        segment = Segment(context, directory, base, size)
        segment.aborts.expect(notes.get(base))
        segments.append(segment)
    epochs, problem = _epochs(fs, name, directory)
    yield from problem
    yield from _small_files(fs, name, directory, snapshots)
    ends = [following for _, following in pairwise([*bases, _ENDLESS])]
    for index, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        target = CheckTarget(
            fs=fs,
            segment=segment,
            size=segment.size,
            rules=OffsetRules(segment.base_offset, end, _ANY_EPOCH),
            segments=segments[: index + 1],
            snapshots=snapshots,
            is_sealed=end != _ENDLESS,
            # Whether the topic is compacted is not known here.
            is_compacted=True,
            truncations=0,
        )
        check = SegmentCheck(target)
        for _ in check.steps():
            pass
        if check.findings is not None:
            yield from _problems(name, target, check.findings, epochs)


def _problems(
    name: str, target: CheckTarget, findings: LogCheckFindings, epochs: list[tuple[int, int]]
) -> Iterator[Problem]:
    segment = target.segment
    for each in findings.damaged:
        at_end = not target.is_sealed and each.end_position == target.size
        yield Problem(name, segment.log_path, each.reason, each.offset, each.end_offset, is_at_end=at_end)
    if findings.indexes is not None:
        yield Problem(name, f"{segment.stem}.index", findings.indexes_reason)
    if findings.aborted_reason:
        yield Problem(name, f"{segment.stem}.txnindex", findings.aborted_reason)
    for epoch, offset in findings.epochs:
        known = max((each for each in epochs if each[1] <= offset), default=(epoch, offset))
        if epoch >= 0 and target.is_sealed and known[0] != epoch:
            checkpoint = f"{segment.stem.rpartition('/')[0]}/{LEADER_EPOCH_CHECKPOINT}"
            yield Problem(name, checkpoint, f"epoch {known[0]} at offset {offset}, and {epoch} in the log")


def _epochs(fs: FileSystem, name: str, directory: str) -> tuple[list[tuple[int, int]], list[Problem]]:
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return decode_epochs(read_file(fs, path), path), []
    except FileNotFoundError:
        return [], []
    except CorruptDataError as error:
        return [], [Problem(name, path, error.message)]


def _small_files(fs: FileSystem, name: str, directory: str, snapshots: ProducerSnapshots) -> Iterator[Problem]:
    try:
        read_partition_metadata(fs, f"{directory}/{PARTITION_METADATA}")
    except CorruptDataError as error:
        yield Problem(name, error.where, error.message)
    for offset in snapshots.offsets:
        try:
            snapshots.read(offset)
        except CorruptDataError as error:
            yield Problem(name, error.where, error.message)
        except FileNotFoundError:
            continue
