"""Leaves out what was appended after the time that a query asks for.

Records have the time of their producer, in any order, so an upper bound excludes no later segment, unless brokers stamp
records as they append them (LogAppendTime): then a segment whose first batch is later than the bound has nothing
earlier. A topic can change from one kind to the other, so batches decide, not the topic's setting: from the end of the
partition backwards, while segments begin with such a batch. The last segment is never left out, nor is one before a
gap: another kind of batch may follow its first one.

Two assumptions: brokers' clocks do not run back, and a topic is not changed to producers' times and back within one
segment. Only reading the whole segment would show such batches.
"""

from __future__ import annotations

from crabka.records.header import LOG_APPEND_TIME
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart


def without_later(objects: SegmentObjects, parts: list[TierPart], max_timestamp_us: int) -> list[TierPart]:
    """Return parts of a partition, in order, up to the last one that can have records of the time or earlier.

    `parts` is all that there is between two offsets: a part is judged by the one that follows it in the log. Raises
    TierReadError, RemoteBackendError.
    """

    def is_later(part: TierPart) -> bool:
        first = objects.first_batch(part.segment)
        return first.timestamp_type == LOG_APPEND_TIME and first.max_timestamp * 1000 > max_timestamp_us

    witness = len(parts) - 1
    floor = max((at for at in range(1, len(parts)) if parts[at - 1].end != parts[at].start), default=0)
    if witness < 1 or not is_later(parts[witness]):
        return parts
    kept, asked_at_once = witness, 1
    while kept > floor:
        # Few segments are asked where few are later; many are asked at a time where many are.
        asked = range(max(kept - asked_at_once, floor), kept)
        answers = objects.for_all((parts[index] for index in asked), is_later)
        later = 0
        while later < len(answers) and answers[-1 - later]:
            later += 1
        kept -= later
        if later < len(answers):
            break
        asked_at_once *= 2
    return [*parts[:kept], parts[witness]]
