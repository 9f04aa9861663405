from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher.fetcher import FetchedRecord
from crabka.embedded import Broker
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.reading import MetadataTopicReader, OnEvent
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.plan.catalog.cache_files import cache_path, store_cache
from crabka.spark.plan.catalog.topic_catalog import load_topic_catalog
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments, update
from tests.support.tiers.segment_metadata import DELETING

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


@pytest.mark.parametrize(("offset", "epoch"), [(99, -1), (99, 0), (2, 7)])
def test_files_that_know_another_log_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, epoch: int
) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    with Broker() as broker, BrokerSession(broker.bootstrap_servers, {}) as session:
        with SyncAdmin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(METADATA_TOPIC, PARTITIONS)])
        publish(broker.bootstrap_servers, tier)
        topic = session.topics()[METADATA_TOPIC]
        place = metadata_partition_for(ORDERS, PARTITIONS)
        lost = two_segments(first_id=50).segments
        dump = PartitionDump(topic_id_partition=ORDERS, segments=tuple(lost))
        store_cache(
            cache_path("topic", topic.topic_id, PARTITIONS, place),
            Snapshot(
                topic_id=topic.topic_id,
                partition_count=PARTITIONS,
                partition=place,
                next_offset=offset,
                leader_epoch=epoch,
                dump=RlmmCacheDump((dump,)),
            ),
        )
        for _ in range(2):
            assert load_topic_catalog(session, [ORDERS]).segments == {ORDERS: tier.segments}
