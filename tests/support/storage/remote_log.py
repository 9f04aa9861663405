"""A remote log over a chunk cache."""

from __future__ import annotations

from crabka.broker.tiering.read.remote_log import RemoteLog
from crabka.formats.leader_epochs import EpochLineage
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState
from crabka.testing.remote_samples import SAMPLE_PARTITION, sample_update

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def remote_log(entries: list[tuple[int, int]], *segments: RemoteLogSegmentMetadata, unfinished: int = 0) -> RemoteLog:
    lookup = InmemoryRemoteLogMetadataManager()
    for index, segment in enumerate(segments):
        lookup.add_remote_log_segment_metadata(segment)
        if index < len(segments) - unfinished:
            lookup.update_remote_log_segment_metadata(sample_update(segment, FINISHED))
    return RemoteLog(SAMPLE_PARTITION, EpochLineage(entries), lookup)
