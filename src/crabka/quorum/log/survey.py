"""Surveys all batches of a metadata log before it is changed: how far it is valid, and its faults.

Sealed segments are surveyed as well: they were synced before the next segment began, so damage in them is rot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from crabka.formats.file_names import LOG_SUFFIX, file_offset, offset_name
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.segment.scan import scan_headers
from crabka.quorum.log.epoch_runs import EpochRun, WrongRun, resolve_epochs
from crabka.records.header import BatchHeader, crc_valid

if TYPE_CHECKING:
    from crabka.ports import FileSystem


class StoredBatch(NamedTuple):
    """A batch of the log with its parsed header."""

    header: BatchHeader
    data: bytes


class MetadataDamage(NamedTuple):
    """The offset from which a log is unusable, and the reason."""

    path: str
    position: int
    # The first offset that is lost.
    offset: int
    # Lost bytes, in this file and in those after it.
    size_bytes: int
    reason: str
    # End of the part that the files show to have been durable, else 0.
    sealed_end: int

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged from offset {self.offset} on: {self.reason} at position {self.position}, "
            f"{self.size_bytes} bytes from there are lost"
        )


@dataclass(slots=True)
class LogSurvey:
    """The findings of a survey of all segments."""

    # Base offsets of the segments that are valid, or valid up to `damage`, with the valid bytes of each.
    segments: list[tuple[int, int]] = field(default_factory=list)
    # Those after the damage.
    lost_segments: list[int] = field(default_factory=list)
    end_offset: int = 0
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    # The batches with control records, which contain the voters.
    control: list[StoredBatch] = field(default_factory=list)
    damage: MetadataDamage | None = None
    # Damaged segments that a snapshot covers, with the fault of the last.
    covered_segments: list[int] = field(default_factory=list)
    covered_reason: str = ""
    # End of a log that is dropped because the records before it are missing.
    unreachable_end: OffsetAndEpoch | None = None
    # Start offsets of epochs in the batches.
    runs: list[EpochRun] = field(default_factory=list)
    # Batches with a wrong epoch whose correct one is known.
    wrong_epochs: list[WrongRun] = field(default_factory=list)

    def leave_out(self, reason: str) -> None:
        """Begin the log after the segments so far."""
        self.covered_segments += [base for base, _ in self.segments]
        self.covered_reason = reason
        self.segments, self.lost_segments, self.control, self.runs = [], [], [], []

    @property
    def sealed_end(self) -> OffsetAndEpoch | None:
        """An end that was durable, if the files alone show that it is lost."""
        if self.unreachable_end is not None:
            return self.unreachable_end
        if self.damage is None or self.damage.sealed_end <= self.end_offset:
            return None
        return OffsetAndEpoch(self.damage.sealed_end, max(0, self.epochs.latest))


def survey_log(fs: FileSystem, directory: str, start_offset: int = 0, noted: OffsetAndEpoch | None = None) -> LogSurvey:
    """Read all segments up to the first invalid batch; changes nothing.

    `noted` is the recorded durable end: if the log ends there, its last epoch is known.

    Segments that end at or below `start_offset` are covered by a snapshot: if one of them is damaged, or was half
    removed by a crash, the log begins after it. A log that begins above `start_offset` is lost completely: the records
    in between are missing, and no image can be built without them.
    """
    survey = _survey_segments(fs, directory, start_offset, None)
    resolved = resolve_epochs(survey.runs, survey.end_offset, noted)
    if resolved.unknown_from is not None:
        survey = _survey_segments(fs, directory, start_offset, resolved.unknown_from)
    for epoch, offset in resolved.runs:
        survey.epochs.assign(epoch, offset)
    survey.wrong_epochs = resolved.wrong
    first = survey.segments[0][0] if survey.segments else start_offset
    return survey if first <= start_offset else _unreachable(fs, directory, start_offset, survey)


def _unreachable(fs: FileSystem, directory: str, start_offset: int, found: LogSurvey) -> LogSurvey:
    """Return the survey of a log without the records before it: all of it is lost."""
    bases = segment_bases(fs, directory)
    path = f"{directory}/{offset_name(bases[0])}{LOG_SUFFIX}"
    end = OffsetAndEpoch(max(found.end_offset, bases[-1]), max(0, found.epochs.latest))
    damage = MetadataDamage(
        path=path,
        position=0,
        offset=start_offset,
        size_bytes=sum(_size(fs, directory, base) for base in bases),
        reason=f"the log starts at offset {bases[0]}, and no valid file holds the offsets from {start_offset} on",
        sealed_end=end.offset,
    )
    return LogSurvey(lost_segments=bases, end_offset=start_offset, damage=damage, unreachable_end=end)


def _survey_segments(fs: FileSystem, directory: str, start_offset: int, stop_at: int | None) -> LogSurvey:
    """Survey the segments; the epochs from offset `stop_at` on are unknown."""
    survey = LogSurvey()
    bases = segment_bases(fs, directory)
    needed = max((base for base in bases if base <= start_offset), default=0)
    for index, base in enumerate(bases):
        if survey.segments and base != survey.end_offset and base <= needed:
            survey.leave_out(f"offset {survey.end_offset} is missing")
        path = f"{directory}/{offset_name(base)}{LOG_SUFFIX}"
        size, good, reason = fs.stat(path).size_bytes, 0, ""
        if survey.segments and base != survey.end_offset:
            reason = f"the segment begins with offset {base} instead of {survey.end_offset}"
            survey.lost_segments = bases[index:]
        else:
            survey.end_offset = base
            good, reason = _survey_segment(fs, path, size, survey, stop_at)
            survey.segments.append((base, good))
            survey.lost_segments = bases[index + 1 :] if reason else []
        if reason and base < needed:
            survey.leave_out(reason)
        elif reason:
            lost = size - good + sum(_size(fs, directory, other) for other in bases[index + 1 :])
            survey.damage = MetadataDamage(path, good, survey.end_offset, lost, reason, bases[-1])
            break
    return survey


def segment_bases(fs: FileSystem, directory: str) -> list[int]:
    """Return the base offsets of the segments in a directory, in order."""
    names = [name for name in fs.listdir(directory) if name.endswith(LOG_SUFFIX)]
    return sorted(offset for name in names if (offset := file_offset(name)) is not None)


def read_segment(fs: FileSystem, path: str, size: int) -> Iterator[StoredBatch]:
    """Yield the whole batches of a segment file, unchecked, through a handle of its own."""
    file = fs.open(path, read_only=True)
    try:
        for position, header in scan_headers(file, 0, size):
            yield StoredBatch(header, file.pread(header.size_in_bytes, position))
    finally:
        file.close()


def _survey_segment(fs: FileSystem, path: str, size: int, survey: LogSurvey, stop_at: int | None) -> tuple[int, str]:
    """Return how many bytes of a segment are valid, and the fault after them, if any."""
    good = 0
    for batch in read_segment(fs, path, size):
        header = batch.header
        if not crc_valid(batch.data, 0, header):
            return good, "a batch has a wrong checksum"
        if header.base_offset != survey.end_offset or header.last_offset < header.base_offset:
            return good, f"a batch has offset {header.base_offset} instead of {survey.end_offset}"
        epoch = header.partition_leader_epoch
        if stop_at is not None and header.base_offset >= stop_at:
            return good, f"a batch has epoch {epoch}, and a later batch a contradicting one"
        if header.is_control:
            survey.control.append(batch)
        if not survey.runs or survey.runs[-1].epoch != epoch:
            survey.runs.append(EpochRun(epoch, header.base_offset))
        survey.end_offset = header.next_offset
        good += header.size_in_bytes
    return good, "" if good == size else "the last batch is truncated or has an invalid header"


def _size(fs: FileSystem, directory: str, base: int) -> int:
    return fs.stat(f"{directory}/{offset_name(base)}{LOG_SUFFIX}").size_bytes
