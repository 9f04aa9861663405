"""The catalog from a file: metadata of a tier as it was exported, for reading without brokers.

The form is that of the broker's snapshots of the metadata topic, with the partitions of all metadata partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from crabka.errors import ConfigError, CorruptDataError
from crabka.ids import ZERO_UUID
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote.removal_notice import is_removal_notice
from crabka.remote.segments import RemoteLogSegmentState
from crabka.remote_topic.snapshot import Snapshot, decode_snapshot, encode_snapshot
from crabka.spark.plan.catalog.segments import TierCatalog

_FILE_SCHEME: Final = "file://"


def load_snapshot_catalog(place: str, wants: Callable[[str], bool]) -> TierCatalog:
    """Return the segments of the topics that are wanted. Raises ConfigError if the file cannot be read."""
    try:
        snapshot = decode_snapshot(_path(place).read_bytes(), place)
    except (OSError, CorruptDataError) as error:
        raise ConfigError(f"tier.snapshot: {error}") from None
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    found = {
        dump.topic_id_partition: [
            segment for segment in dump.segments if segment.state is finished and not is_removal_notice(segment)
        ]
        for dump in snapshot.dump.partitions
        if wants(dump.topic_id_partition.topic)
    }
    return TierCatalog({partition: segments for partition, segments in found.items() if segments})


def write_snapshot_file(place: str, catalog: TierCatalog) -> None:
    """Write the metadata of a tier to a file. Raises OSError."""
    dumps = [
        PartitionDump(topic_id_partition=partition, segments=tuple(segments))
        for partition, segments in catalog.segments.items()
    ]
    snapshot = Snapshot(
        topic_id=ZERO_UUID, partition_count=1, partition=0, next_offset=0, dump=RlmmCacheDump(tuple(dumps))
    )
    _path(place).write_bytes(encode_snapshot(snapshot))


def _path(place: str) -> Path:
    return Path(place.removeprefix(_FILE_SCHEME))
