from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher import FetchedRecord
from crabka.embedded import Broker
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.reading import MetadataTopicReader, OnEvent
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.spark.broker_session import BrokerSession
from crabka.spark.plan.topic_catalog import load_topic_catalog
from tests.support.planted_tier import ORDERS, PlantedTier, batches, update
from tests.support.remote_segments import DELETING

PARTITIONS = 3


def publish(bootstrap: str, tier: PlantedTier, start: int = 0) -> None:
    """Write the events of a tier as brokers do."""
    with SyncProducer(bootstrap) as producer:
        for event in tier.events[start:]:
            place = metadata_partition_for(event.topic_id_partition, PARTITIONS)
            producer.send_many(METADATA_TOPIC, [(None, encode_event(event))], partition=place)


def test_events_are_read_once_and_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))
    seen: list[object] = []
    whole = MetadataTopicReader._take

    def count(self: MetadataTopicReader, records: list[FetchedRecord], on_event: OnEvent) -> None:
        seen.extend(records)
        whole(self, records, on_event)

    monkeypatch.setattr(MetadataTopicReader, "_take", count)
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    with Broker() as broker, BrokerSession(broker.bootstrap_servers, {}) as session:
        assert load_topic_catalog(session, [ORDERS]).segments == {}
        with SyncAdmin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(METADATA_TOPIC, PARTITIONS)])
        publish(broker.bootstrap_servers, tier)
        assert load_topic_catalog(session, [ORDERS]).segments == {ORDERS: tier.segments}
        assert len(seen) == 2
        assert load_topic_catalog(session, [ORDERS]).segments == {ORDERS: tier.segments}
        assert len(seen) == 2
        tier.add(batches(10, 2), [(0, 0)])
        tier.apply(update(tier.segments[0], DELETING))
        publish(broker.bootstrap_servers, tier, 2)
        assert load_topic_catalog(session, [ORDERS]).segments == {ORDERS: tier.segments[1:]}
        assert len(seen) == 5
        other = TopicIdPartition(ORDERS.topic_id, "orders", 9)
        assert load_topic_catalog(session, [other]).segments == {}
        for file in (tmp_path / "spark").iterdir():
            file.write_bytes(b"torn")
        assert load_topic_catalog(session, [ORDERS]).segments == {ORDERS: tier.segments[1:]}
        assert load_topic_catalog(session, []).segments == {}
