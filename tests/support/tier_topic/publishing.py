"""Puts events of remote segments into the metadata topic of a memory cluster."""

from __future__ import annotations

from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from tests.support.clients.simulation import ClientSimulation
from tests.support.clusters.memory import MemoryCluster
from tests.support.tiers.planted import PlantedTier


def publish(simulation: ClientSimulation, tier: PlantedTier) -> None:
    publish_events(simulation.brokers, tier)


def publish_events(cluster: MemoryCluster, tier: PlantedTier) -> None:
    partitions = cluster.topics[METADATA_TOPIC]
    for event in tier.events:
        partition = partitions[metadata_partition_for(event.topic_id_partition, len(partitions))]
        partition.append_raw(build_batch([Record(0, 1, None, encode_event(event))]))
