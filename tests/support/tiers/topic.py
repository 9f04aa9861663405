"""A topic of a live node with a planted tier: objects in a directory, events in `__remote_log_metadata`.

The node itself knows nothing of the tier, so that a test decides what is in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.remote.backends.local import ROOT_NAME
from crabka.remote.scrub import TierEvent
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from tests.support.tiers.planted import PlantedTier, two_segments

METADATA_PARTITIONS = 3
_segment_ids = itertools.count(1, 1000)


class TieredTopic:
    """A topic of one partition with two segments, 0..29 and 30..59, in a tier of its own."""

    def __init__(self, bootstrap: str, directory: Path, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.directory = directory
        self.url = f"file://{directory}"
        with SyncAdmin(bootstrap) as admin:
            if METADATA_TOPIC not in admin.list_topics():
                admin.create_topics([NewTopic(METADATA_TOPIC, METADATA_PARTITIONS)])
            (topic,) = admin.create_topics([NewTopic(name, 1)])
        self.partition = TopicIdPartition(topic.topic_id, name, 0)
        self.tier: PlantedTier = two_segments(self.partition, next(_segment_ids))
        self.store()
        self.publish(self.tier.events)

    @property
    def root(self) -> Path:
        """Where the objects lie."""
        return self.directory / ROOT_NAME

    def store(self) -> None:
        """Make the directory hold what the planted tier holds, and nothing else of it."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path in self.root.rglob("*.*"):
            path.unlink()
        for name, data in self.tier.storage.objects.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    def publish(self, events: Iterable[TierEvent]) -> None:
        """Write events where brokers would write them."""
        with SyncProducer(self.bootstrap) as producer:
            for event in events:
                partition = metadata_partition_for(event.topic_id_partition, METADATA_PARTITIONS)
                producer.send(METADATA_TOPIC, encode_event(event), partition=partition)
            producer.flush()
