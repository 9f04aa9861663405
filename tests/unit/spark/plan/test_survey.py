from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.log.producer_snapshots import encode_snapshot
from crabka.log.producer_state import ProducerEntry
from crabka.remote.segments import IndexType
from crabka.spark.plan.context import open_context
from crabka.spark.plan.survey import Survey, make_survey, wants_topic
from crabka.spark.source.options import SourceOptions
from crabka.spark.source.strategies import Assign, Subscribe, SubscribePattern
from tests.support.planted_tier import ORDERS, two_segments
from tests.support.tier_stores import write_tier

O0 = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))


def of_tier(uri: str, **more: str) -> SourceOptions:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}
    return SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)


def test_the_tier_alone_tells_how_far_it_reaches(tmp_path: Path) -> None:
    with open_context(of_tier(write_tier(two_segments(), tmp_path))) as context:
        survey = make_survey(context).partitions[O0]
    assert (survey.topic_id, survey.earliest, survey.latest, len(survey.parts)) == (ORDERS.topic_id, 0, 60, 2)


def test_committed_reads_of_the_tier_end_at_the_oldest_open_transaction(tmp_path: Path) -> None:
    tier = two_segments()
    writer = ProducerEntry(5, 0)
    writer.txn_first_offset = 48
    tier.put(tier.segments[1], IndexType.PRODUCER_SNAPSHOT, encode_snapshot([writer]))
    uri = write_tier(tier, tmp_path)
    with open_context(of_tier(uri, isolation__level="read_committed")) as context:
        assert make_survey(context).partitions[O0].latest == 48
    with open_context(of_tier(uri)) as context:
        assert make_survey(context).partitions[O0].latest == 60


def test_some_partitions_can_be_asked_for(tmp_path: Path) -> None:
    with open_context(of_tier(write_tier(two_segments(), tmp_path))) as context:
        assert make_survey(context, [TopicPartition("orders", 3)]).partitions == {}


def test_a_cluster_tells_its_topics_and_bounds() -> None:
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
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    options = SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)
    with open_context(options) as context:
        return make_survey(context)


def test_strategies_choose_topics() -> None:
    assert wants_topic(Assign(frozenset({O0})), "orders")
    assert not wants_topic(Assign(frozenset({O0})), "other")
    assert wants_topic(Subscribe(frozenset({"a"})), "a")
    assert wants_topic(SubscribePattern("^o"), "orders")
