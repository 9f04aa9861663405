"""Produce and Fetch by hand: the two APIs whose cost per request decides what a node can do."""

from crabka.protocol.hot.fetch_response import (
    NO_AFFINITY,
    FetchPartitionResult,
    FetchTopicResult,
    RecordParts,
    pack_fetch_response,
)
from crabka.protocol.hot.primitives import NodeEndpoint
from crabka.protocol.hot.produce import (
    ProduceBody,
    ProducePartition,
    ProducePartitionResult,
    ProduceTopic,
    ProduceTopicResult,
    pack_produce_response,
    read_produce_request,
)

__all__ = [
    "NO_AFFINITY",
    "FetchPartitionResult",
    "FetchTopicResult",
    "NodeEndpoint",
    "ProduceBody",
    "ProducePartition",
    "ProducePartitionResult",
    "ProduceTopic",
    "ProduceTopicResult",
    "RecordParts",
    "pack_fetch_response",
    "pack_produce_response",
    "read_produce_request",
]
