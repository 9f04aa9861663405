from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher.offsets import LATEST
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import encode_snapshot
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.options.selection import Assign, Subscribe, SubscribePattern
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import open_context
from crabka.spark.plan.survey import Survey, chosen_catalog, make_survey, wants_topic
from tests.support.tiers.plans import options
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments
from tests.support.tiers.stores import write_tier

if TYPE_CHECKING:
    from crabka.clients.cluster.metadata import TopicMetadata

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)


def test_the_tier_alone_shows_how_far_it_reaches(tmp_path: Path) -> None:
    with open_context(options(write_tier(two_segments(), tmp_path))) as context:
        survey = make_survey(context).partitions[O0]
    assert (survey.topic_id, survey.earliest, survey.latest, len(survey.parts)) == (ORDERS.topic_id, 0, 60, 2)


def test_committed_reads_of_the_tier_end_at_the_oldest_open_transaction(tmp_path: Path) -> None:
    tier = two_segments()
    writer = ProducerEntry(5, 0)
    writer.txn_first_offset = 48
    tier.put(tier.segments[1], IndexType.PRODUCER_SNAPSHOT, encode_snapshot([writer]))
    uri = write_tier(tier, tmp_path)
    with open_context(options(uri, isolation__level="read_committed")) as context:
        assert make_survey(context).partitions[O0].latest == 48
    with open_context(options(uri)) as context:
        assert make_survey(context).partitions[O0].latest == 60


def test_segments_that_are_no_part_of_the_history_are_reported(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    tier.add(batches(10, 2, epoch=1), [(0, 0), (1, 10)])
    tier.add(batches(10, 2, epoch=2), [(0, 0), (2, 10)])
    with open_context(options(write_tier(tier, tmp_path))) as context:
        survey = make_survey(context)
    assert [part.segment.segment_id for part in survey.partitions[O0].parts] == [
        tier.segments[0].segment_id,
        tier.segments[2].segment_id,
    ]
    assert survey.ignored == (
        f"segment 00000000000000000010 of {ORDERS}: its leader epochs are not in the history of the newest segment",
    )


def test_some_partitions_can_be_asked_for(tmp_path: Path) -> None:
    with open_context(options(write_tier(two_segments(), tmp_path))) as context:
        assert make_survey(context, [TopicPartition("orders", 3)]).partitions == {}


def test_a_cluster_has_topics_and_bounds() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("a", 2), NewTopic("b", 1)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many("a", [(None, b"x")] * 7, partition=1)
        admin.delete_records({TopicPartition("a", 1): 2})
        topic_id = admin.list_topics()["a"].topic_id
        found = survey_of(broker, subscribe="a").partitions
        assert {p: (each.topic_id, each.earliest, each.latest) for p, each in found.items()} == {
            TopicPartition("a", 0): (topic_id, 0, 0),
            TopicPartition("a", 1): (topic_id, 2, 7),
        }
        assert set(survey_of(broker, assign='{"a":[1,9]}').partitions) == {TopicPartition("a", 1)}
        assert set(survey_of(broker, subscribePattern="b|__.*").partitions) == {TopicPartition("b", 0)}
        with pytest.raises(ConfigError, match="the cluster has no topic c, d"):
            survey_of(broker, subscribe="a,c,d")
        with pytest.raises(ConfigError, match=r"leave out kafka\.bootstrap\.servers"):
            survey_of(broker, subscribe="a", tier__topicId="ksqWDRxfTGu8jPNvmLEoUg")


def survey_of(broker: Broker, **more: str) -> Survey:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "fetchOffset.retryIntervalMs": "0"}
    options = SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)
    with open_context(options) as context:
        return make_survey(context)


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BrokerSession.topics
    asked: list[int] = []

    def late(self: BrokerSession) -> Mapping[str, TopicMetadata]:
        asked.append(len(asked))
        return whole(self) if len(asked) == 3 else {}

    monkeypatch.setattr(BrokerSession, "topics", late)
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("a", 1)])
        assert set(survey_of(broker, subscribe="a").partitions) == {TopicPartition("a", 0)}


def test_a_log_that_is_deleted_meanwhile_does_not_begin_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(
        _self: BrokerSession, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        del read_committed
        return {partition: 5 if position == LATEST else 9 for partition, position in timestamps.items()}

    monkeypatch.setattr(BrokerSession, "offsets", overtaken)
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("a", 1)])
        survey = survey_of(broker, subscribe="a").partitions[TopicPartition("a", 0)]
    assert (survey.earliest, survey.latest) == (9, 9)


def test_the_metadata_of_a_tier_is_known_also_where_the_tier_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crabka.spark.plan.context.ask_tier_uri", lambda _session: f"file://{tmp_path}/elsewhere")
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders", 1), NewTopic(METADATA_TOPIC, 1)])
        place = TopicIdPartition(admin.list_topics()["orders"].topic_id, "orders", 0)
        tier = two_segments(place)
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many(METADATA_TOPIC, [(None, encode_event(event)) for event in tier.events], partition=0)
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}
        with open_context(SourceOptions.parse(given, streaming=False)) as context:
            assert context.objects is None
            assert chosen_catalog(context).segments == {place: tier.segments}


def test_strategies_choose_topics() -> None:
    assert wants_topic(Assign(frozenset({O0})), "orders")
    assert not wants_topic(Assign(frozenset({O0})), "other")
    assert wants_topic(Subscribe(frozenset({"a"})), "a")
    assert wants_topic(SubscribePattern("^o"), "orders")
