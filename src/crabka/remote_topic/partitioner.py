"""Which partition of the metadata topic holds the events of a partition, as Kafka's broker decides.

Only the id of the topic counts: a topic that is created again under the same name is another topic.
"""

from __future__ import annotations

import struct

from crabka.clients.producer.partitioner import partition_for_key
from crabka.remote.segments import TopicIdPartition

_LONGS = struct.Struct(">QQ")
_INT = struct.Struct(">I")
_MASK = 0xFFFFFFFF


def metadata_partition_for(partition: TopicIdPartition, partition_count: int) -> int:
    """Return the metadata partition among `partition_count`, which is that of the topic and not that of the settings.

    Raises ValueError if there is no partition to choose from.
    """
    if partition_count <= 0:
        raise ValueError(f"a topic cannot have {partition_count} partitions")
    most, least = _LONGS.unpack(partition.topic_id.bytes)
    # Java's Objects.hash of two longs and an int.
    mixed = 31 * (31 * (31 + _hash_of_long(least)) + _hash_of_long(most)) + partition.partition
    return partition_for_key(_INT.pack(mixed & _MASK), partition_count)


def _hash_of_long(value: int) -> int:
    return (value ^ value >> 32) & _MASK
