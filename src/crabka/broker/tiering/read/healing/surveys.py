"""Surveys of segments in which a read met what cannot be: made once for all readers, kept for a while, and reported.

One line per damaged place and its outcome, however many reads meet it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.read.healing.segment_survey import SegmentSurvey, survey_segment
from crabka.broker.tiering.read.healing.verified_parts import SegmentParts
from crabka.broker.tiering.stats import REMOTE_CORRECTED_RANGES, REMOTE_DAMAGED_RANGES, REMOTE_INDEX_FAULTS
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    import asyncio
    import uuid

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.healing.segment_walk import DamagedStretch
    from crabka.broker.tiering.read.pool import ReaderPool
    from crabka.broker.tiering.stats import TierStats
    from crabka.formats.offset_index import OffsetIndex
    from crabka.ports import Clock
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

logger = logging.getLogger(__name__)

# A restored object is served again after this time, and read as a whole no more often than that.
LOST_TTL_MS: Final = 60_000
# Corrected bytes are right for good; they only take memory.
CORRECTED_TTL_MS: Final = 600_000
# A segment that changes under a survey is looked at again no sooner.
RETRY_MS: Final = 10_000
_MAX_SURVEYS: Final = 64
_MAX_DOUBTS: Final = 1024
_MAX_REPORTED: Final = 4096


class KnownSurvey(NamedTuple):
    """A survey, when it was made, and which parts of what it shows were checked since."""

    survey: SegmentSurvey
    made_ms: int
    parts: SegmentParts


class SegmentSurveys:
    """The surveys of one node. Only for the loop."""

    def __init__(self, storage: RemoteStorageManager, pool: ReaderPool, clock: Clock, stats: TierStats) -> None:
        self._storage = storage
        self._pool = pool
        self._clock = clock
        self._stats = stats
        self._known: OrderedDict[uuid.UUID, KnownSurvey] = OrderedDict()
        self._making: dict[uuid.UUID, asyncio.Future[SegmentSurvey]] = {}
        self._reported: OrderedDict[object, None] = OrderedDict()
        # Segments in which a read met what cannot be, and the index that it went by.
        self._doubts: OrderedDict[uuid.UUID, OffsetIndex] = OrderedDict()

    def note_doubt(self, segment: RemoteLogSegmentMetadata, index: OffsetIndex) -> bool:
        """Remember that a read by an index met what cannot be; return whether it is the first one."""
        is_first = segment.segment_id.id not in self._doubts
        self._doubts[segment.segment_id.id] = index
        if len(self._doubts) > _MAX_DOUBTS:
            self._doubts.popitem(last=False)
        return is_first

    def dispel_doubt(self, segment: RemoteLogSegmentMetadata) -> None:
        """Forget a doubt: only the copy of the index was wrong."""
        self._doubts.pop(segment.segment_id.id, None)

    def is_doubted(self, segment: RemoteLogSegmentMetadata, index: OffsetIndex) -> bool:
        """Return whether a read by this index has met what cannot be."""
        doubted = self._doubts.get(segment.segment_id.id)
        return doubted is not None and (doubted is index or doubted.encode() == index.encode())

    def of(self, segment: RemoteLogSegmentMetadata) -> KnownSurvey | None:
        """Return a survey that is still good."""
        known = self._known.get(segment.segment_id.id)
        if known is None:
            return None
        ttl_ms = LOST_TTL_MS if known.survey.lost else CORRECTED_TTL_MS
        if self._clock.monotonic_ms() - known.made_ms >= ttl_ms:
            del self._known[segment.segment_id.id]
            return None
        return known

    async def make(
        self, segment: RemoteLogSegmentMetadata, index: OffsetIndex, limit_bytes: int, deadline: Deadline
    ) -> KnownSurvey:
        """Return a survey, made now unless there is one. Raises RemoteStorageError, RemoteWaitOverError.

        A survey that takes too long continues for the next reader.
        """
        segment_id = segment.segment_id.id
        making = self._making.get(segment_id)
        if making is None:
            making = self._pool.submit(survey_segment, self._storage, segment, index, limit_bytes)
            self._making[segment_id] = making
            making.add_done_callback(lambda done: self._made(segment, done))
        survey = await deadline.wait(making)
        return self.of(segment) or KnownSurvey(survey, self._clock.monotonic_ms(), SegmentParts())

    def is_fresh(self, known: KnownSurvey) -> bool:
        """Return whether a survey is too recent to be repeated."""
        return self._clock.monotonic_ms() - known.made_ms < RETRY_MS

    def forget(self, segment_id: uuid.UUID) -> None:
        """Drop what is known of a segment that is deleted, or has changed since."""
        self._known.pop(segment_id, None)
        self._doubts.pop(segment_id, None)

    def _made(self, segment: RemoteLogSegmentMetadata, making: asyncio.Future[SegmentSurvey]) -> None:
        del self._making[segment.segment_id.id]
        if making.cancelled() or making.exception() is not None:
            return
        survey = making.result()
        self._doubts.pop(segment.segment_id.id, None)
        self._known[segment.segment_id.id] = KnownSurvey(survey, self._clock.monotonic_ms(), SegmentParts())
        if len(self._known) > _MAX_SURVEYS:
            self._known.popitem(last=False)
        for stretch in survey.corrected:
            self._report_corrected(segment, stretch)
        for stretch in survey.lost:
            self._report_lost(segment, stretch)
        if survey.index_fault:
            self.report_index(
                segment, IndexType.OFFSET, f"{survey.index_fault}; reads go by one built from the batches"
            )

    # -- reporting -----------------------------------------------------------------------------------------------

    def report_index(self, segment: RemoteLogSegmentMetadata, kind: IndexType, reason: str) -> None:
        """Report once that an index is not used as it lies in the tier."""
        if self._is_news((segment.segment_id.id, kind)):
            self._stats.count(REMOTE_INDEX_FAULTS, segment.topic_id_partition.topic)
            logger.warning(
                "%s: %s in the remote tier is damaged: %s. `crabka tier fsck` checks the whole tier.",
                _name(segment),
                object_path(segment, kind),
                reason,
            )

    def _report_corrected(self, segment: RemoteLogSegmentMetadata, stretch: DamagedStretch) -> None:
        topic = segment.topic_id_partition.topic
        if self._is_news((segment.segment_id.id, stretch.position, stretch.changes)):
            self._stats.count(REMOTE_DAMAGED_RANGES, topic)
            self._stats.count(REMOTE_CORRECTED_RANGES, topic)
            logger.warning(
                "%s: offsets %d to %d are damaged in the remote tier, segment %s, and are corrected by their checksum "
                "whenever they are read: %s of %s (%s). The object itself stays damaged: restore it from a backup.",
                _name(segment),
                stretch.offset,
                stretch.end_offset - 1,
                segment.segment_id.id,
                ", ".join(map(str, stretch.changes)),
                object_path(segment),
                stretch.reason,
            )

    def _report_lost(self, segment: RemoteLogSegmentMetadata, stretch: DamagedStretch) -> None:
        if self._is_news((segment.segment_id.id, stretch.position, "lost")):
            self._stats.count(REMOTE_DAMAGED_RANGES, segment.topic_id_partition.topic)
            logger.error(
                "%s: offsets %d to %d are damaged in the remote tier, segment %s, bytes %d to %d of %s: %s. They are "
                "answered with CORRUPT_MESSAGE, all others are served. `crabka tier fsck` shows all that is damaged. "
                "Restore the object from a backup; a replica whose local log begins at or below offset %d still has "
                "the records, and serves them when it leads.",
                _name(segment),
                stretch.offset,
                stretch.end_offset - 1,
                segment.segment_id.id,
                stretch.position,
                stretch.end - 1,
                object_path(segment),
                stretch.reason,
                stretch.offset,
            )

    def _is_news(self, place: object) -> bool:
        if place in self._reported:
            return False
        self._reported[place] = None
        if len(self._reported) > _MAX_REPORTED:
            self._reported.popitem(last=False)
        return True


def _name(segment: RemoteLogSegmentMetadata) -> str:
    return f"{segment.topic_id_partition.topic}-{segment.topic_id_partition.partition}"
