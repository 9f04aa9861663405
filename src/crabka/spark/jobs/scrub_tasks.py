"""Reads segments in Spark tasks and checks them with `crabka.remote.scrub`, the same that `crabka tier fsck` runs.

A row of the input is one segment, as an event of the metadata topic, the one before it, and the offsets that it shares
with others; a row of the output is what was found. Tasks open the storage themselves, from the settings of a node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from crabka.formats.leader_epochs import Epochs
from crabka.remote.opening import open_storage_of
from crabka.remote.scrub import TierFault, TierFaultKind, check_segment, compare_checkpoints, compare_copies
from crabka.remote.scrub.lineage import overlaps, predecessors
from crabka.remote.scrub.segment_check import Fingerprints
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from crabka.remote_topic.serde import decode_event, encode_event
from crabka.spark.session.error_texts import SparkJobError
from crabka.spark.session.row_tasks import ArrowTask, collect_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from crabka.remote.storage_manager import RemoteStorageManager

INPUT_SCHEMA: Final = "segment long, event binary, before binary, shared_start long, shared_stop long"
OUTPUT_SCHEMA: Final = "segment long, faults string, fingerprints string, checkpoint string"
_FOUND: Final = ("faults", "fingerprints", "checkpoint")
TASK_BYTES: Final = 256 << 20
_MIN_TASKS: Final = 8
_MAX_TASKS: Final = 10_000
_WAVES: Final = 20

Partitions = Mapping[TopicIdPartition, Sequence[RemoteLogSegmentMetadata]]


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """What a task found: faults, of batches that other segments have too checksum and length, and the epochs."""

    metadata: RemoteLogSegmentMetadata
    faults: list[TierFault]
    fingerprints: Fingerprints
    checkpoint: Epochs


@dataclass(frozen=True, slots=True)
class ScrubTasks:
    """Checks the contents of segments on a cluster; `settings` name the storage as those of a node do."""

    spark: SparkSession
    settings: Mapping[str, str]

    def __call__(self, partitions: Partitions, on_bytes: Callable[[int], None]) -> list[TierFault]:
        """Return what is wrong in the segments, and where two of one partition differ."""
        segments = [segment for found in partitions.values() for segment in found]
        shared = {each: span for found in partitions.values() for each, span in overlaps(found).items()}
        before = {each: other for found in partitions.values() for each, other in predecessors(found).items()}
        findings: list[CheckedSegment] = []
        # Spark reports nothing of a job that is under way, so that progress is that of several smaller ones.
        for wave in waves(segments):
            findings += self._check(wave, shared, before)
            on_bytes(sum(segment.segment_size_bytes for segment in wave))
        faults = [fault for found in findings for fault in found.faults]
        by_partition: dict[TopicIdPartition, list[CheckedSegment]] = {}
        for found in findings:
            by_partition.setdefault(found.metadata.topic_id_partition, []).append(found)
        for group in by_partition.values():
            faults += compare_copies(group) + compare_checkpoints(group)
        return faults

    def _check(
        self,
        segments: Sequence[RemoteLogSegmentMetadata],
        shared: Mapping[RemoteLogSegmentMetadata, range],
        before: Mapping[RemoteLogSegmentMetadata, RemoteLogSegmentMetadata],
    ) -> list[CheckedSegment]:
        rows = [
            (index, encode_event(segment), _encoded(before.get(segment)), span.start, span.stop)
            for index, segment in enumerate(segments)
            for span in (shared.get(segment, range(0)),)
        ]
        total = sum(segment.segment_size_bytes for segment in segments)
        tasks = min(len(segments), max(_MIN_TASKS, -(-total // TASK_BYTES)), _MAX_TASKS)
        frame = self.spark.createDataFrame(rows, INPUT_SCHEMA).repartition(tasks)
        checked = collect_rows(frame.mapInArrow(_task(dict(self.settings)), OUTPUT_SCHEMA))
        if sorted(row["segment"] for row in checked) != list(range(len(segments))):
            raise SparkJobError(f"Spark gave {len(checked)} answers for {len(segments)} segments; run the audit again")
        return [checked_segment(segments[row["segment"]], *(row[name] for name in _FOUND)) for row in checked]


def waves(segments: Sequence[RemoteLogSegmentMetadata]) -> Iterator[Sequence[RemoteLogSegmentMetadata]]:
    """Yield the segments in parts that are worth a job each."""
    total = sum(segment.segment_size_bytes for segment in segments)
    limit = max(total // _WAVES, _MIN_TASKS * TASK_BYTES)
    wave: list[RemoteLogSegmentMetadata] = []
    size = 0
    for segment in segments:
        if wave and size + segment.segment_size_bytes > limit:
            yield wave
            wave, size = [], 0
        wave.append(segment)
        size += segment.segment_size_bytes
    if wave:
        yield wave


def check_row(
    storage: RemoteStorageManager, event: bytes, shared: range, before: bytes | None = None
) -> tuple[str, str, str]:
    """Check one segment; return faults, fingerprints and epochs as JSON."""
    metadata = _decoded(event)
    previous = None if before is None else _decoded(before)
    found = check_segment(storage, metadata, remember=shared, before=previous)
    faults = [[fault.kind.value, fault.detail] for fault in found.faults]
    fingerprints = [[*key, *value] for key, value in found.fingerprints.items()]
    return json.dumps(faults), json.dumps(fingerprints), json.dumps(found.checkpoint)


def _encoded(segment: RemoteLogSegmentMetadata | None) -> bytes | None:
    return None if segment is None else encode_event(segment)


def _decoded(event: bytes) -> RemoteLogSegmentMetadata:
    metadata = decode_event(event)
    if not isinstance(metadata, RemoteLogSegmentMetadata):
        raise TypeError(f"{metadata} is no segment")
    return replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


def checked_segment(
    metadata: RemoteLogSegmentMetadata, faults: str, fingerprints: str, checkpoint: str
) -> CheckedSegment:
    """Return what a task found of a segment."""
    return CheckedSegment(
        metadata,
        [
            TierFault(
                kind=TierFaultKind(kind),
                detail=detail,
                partition=metadata.topic_id_partition,
                segment_id=metadata.segment_id,
            )
            for kind, detail in json.loads(faults)
        ],
        {(epoch, offset): (crc, length) for epoch, offset, crc, length in json.loads(fingerprints)},
        tuple((epoch, first) for epoch, first in json.loads(checkpoint)),
    )


def _task(settings: dict[str, str]) -> ArrowTask:
    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        storage = open_storage_of(settings)
        try:
            for batch in batches:
                for row in batch.to_pylist():
                    span = range(row["shared_start"], row["shared_stop"])
                    texts = check_row(storage, row["event"], span, row["before"])
                    found = {name: [text] for name, text in zip(_FOUND, texts, strict=True)}
                    yield pa.RecordBatch.from_pydict({"segment": [row["segment"]]} | found)
        finally:
            storage.close()

    return check
