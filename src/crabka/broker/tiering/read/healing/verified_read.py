"""Reads parts of remote segments, and returns them only if all of their batches are whole.

A part is checked in a thread before it is served, unless it was checked recently. If a check fails, the offset index is
fetched again, as it may be a damaged copy. If that does not help, the whole segment is surveyed, and reads use the
survey: corrected batches are served in the place of damaged ones, and a read ends before those that are lost.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from crabka.broker.tiering.read.healing.part_check import DoubtError, PartCheck, PartToCheck, facts_of
from crabka.broker.tiering.read.healing.patched_source import PatchedSource
from crabka.broker.tiering.read.healing.segment_survey import SoundSpan
from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.broker.tiering.read.segment_read import OverrunError, read_part
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    import asyncio

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.healing.part_check import CheckedPart, PartFacts
    from crabka.broker.tiering.read.healing.surveys import KnownSurvey
    from crabka.broker.tiering.read.healing.verified_parts import SegmentParts
    from crabka.broker.tiering.read.segment_read import SegmentPart, WantedBytes
    from crabka.broker.tiering.read.segment_source import SegmentSource
    from crabka.broker.tiering.read.tools import ReadTools
    from crabka.formats.offset_index import OffsetIndex
    from crabka.remote.segments import RemoteLogSegmentMetadata

# A file on this machine is checked so far at once: many small reads in order then need one thread.
AHEAD_BYTES: Final = 1024 * 1024


async def read_verified(
    tools: ReadTools,
    segment: RemoteLogSegmentMetadata,
    wanted: WantedBytes,
    deadline: Deadline,
    *,
    max_decompressed_bytes: int,
) -> SegmentPart | None:
    """Return the batches from the one that holds the offset on, all of them whole; None if there is no such batch.

    Raises RemoteWaitOverError, RemoteStorageError, and of these DamagedSegmentError if the first batch is damaged and
    cannot be corrected.
    """
    known = tools.surveys.of(segment)
    if known is not None:
        try:
            return await _read_surveyed(tools, segment, known, wanted, deadline)
        except DoubtError as doubt:
            if tools.surveys.is_fresh(known):
                raise _changed(segment, doubt) from doubt
            tools.surveys.forget(segment.segment_id.id)
    index = await tools.indexes.offsets(segment, deadline)
    while not tools.surveys.is_doubted(segment, index):
        try:
            part = await _read_plain(tools, segment, index, wanted, deadline)
        except DoubtError:
            _note_doubt(tools, segment, index)
        else:
            tools.surveys.dispel_doubt(segment)
            return part
        index = await tools.indexes.offsets(segment, deadline)
    tools.verified.forget(segment.segment_id.id)
    known = await tools.surveys.make(segment, index, max_decompressed_bytes, deadline)
    try:
        return await _read_surveyed(tools, segment, known, wanted, deadline)
    except DoubtError as doubt:
        raise _changed(segment, doubt) from doubt


def _note_doubt(tools: ReadTools, segment: RemoteLogSegmentMetadata, index: OffsetIndex) -> None:
    """Remember a doubt, so that the next reader continues from here; the first doubt fetches the index again."""
    if tools.surveys.note_doubt(segment, index):
        with suppress(ReaderBusyError):
            tools.indexes.refetch(segment, IndexType.OFFSET)


def _changed(segment: RemoteLogSegmentMetadata, doubt: DoubtError) -> RemoteBackendError:
    """Return the error for a segment that changes while it is read; it is surveyed again later."""
    return RemoteBackendError(f"{segment.segment_id} has changed: {doubt}")


async def _read_plain(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, index: OffsetIndex, wanted: WantedBytes, deadline: Deadline
) -> SegmentPart | None:
    parts = tools.verified.of(segment.segment_id.id)
    source = await tools.source(segment, deadline)
    facts = facts_of(segment)
    span = SoundSpan(0, facts.start_offset, facts.size)
    part = await _read_part(source, index, wanted, span, deadline)
    if part is None or part.first_offset > wanted.offset:
        raise DoubtError(f"there is no batch with offset {wanted.offset}")
    checking = _check(tools, source, (facts, parts), _to_check(tools, index, wanted.offset, part, span))
    if checking is not None:
        # A reader that gives up leaves the outcome to the next one.
        checking.add_done_callback(lambda done: _note_doubt(tools, segment, index) if _is_doubt(done) else None)
        await deadline.wait(checking)
    return part


async def _read_surveyed(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, known: KnownSurvey, wanted: WantedBytes, deadline: Deadline
) -> SegmentPart | None:
    survey = known.survey
    facts = facts_of(segment)._replace(has_holes=survey.has_holes)
    span = survey.span_of(wanted.offset, facts.size)
    source = PatchedSource(await tools.source(segment, deadline), survey.corrected)
    part = await _read_part(source, survey.offsets, wanted, span, deadline)
    if part is not None:
        checked = _to_check(tools, survey.offsets, wanted.offset, part, span)
        checking = _check(tools, source, (facts, known.parts), checked)
        if checking is not None:
            await deadline.wait(checking)
    return part


async def _read_part(
    source: SegmentSource, index: OffsetIndex, wanted: WantedBytes, span: SoundSpan, deadline: Deadline
) -> SegmentPart | None:
    try:
        return await read_part(source, index, wanted, deadline, span=(span.position, span.end))
    except OverrunError as error:
        raise DoubtError(str(error)) from error


def _to_check(tools: ReadTools, index: OffsetIndex, offset: int, part: SegmentPart, span: SoundSpan) -> PartToCheck:
    entry = index.floor_entry(offset)
    is_indexed = entry is not None and entry[1] >= span.position and entry[1] > 0
    ahead = part.end_position - part.byte_count + AHEAD_BYTES if tools.is_local else 0
    return PartToCheck(
        start_position=entry[1] if entry is not None and is_indexed else span.position,
        indexed_offset=entry[0] if entry is not None and is_indexed else None,
        start_offset=None if is_indexed else span.offset,
        offset=offset,
        position=part.end_position - part.byte_count,
        end=part.end_position,
        next_offset=part.next_offset,
        ahead_end=min(ahead, span.end),
    )


def _check(
    tools: ReadTools, source: SegmentSource, known: tuple[PartFacts, SegmentParts], part: PartToCheck
) -> asyncio.Future[CheckedPart] | None:
    """Begin to check a part, whose outcome may be DoubtError; None if that was done recently."""
    facts, parts = known
    if part.end == part.position or tools.verified.covers(parts, part.start_position, part.end):
        return None
    checking = tools.pool.submit(PartCheck(source.read, facts, part).run)

    def note(done: asyncio.Future[CheckedPart]) -> None:
        if not done.cancelled() and done.exception() is None:
            tools.verified.note(parts, done.result().start_position, done.result().end)

    checking.add_done_callback(note)
    return checking


def _is_doubt(checking: asyncio.Future[CheckedPart]) -> bool:
    return not checking.cancelled() and isinstance(checking.exception(), DoubtError)
