from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext
from crabka.spark.plan.latest import StartOffsets, ask_bounds, start_offsets, survey_reaching
from crabka.spark.plan.survey import PartitionSurvey, Survey
from tests.support.tiers.planted import two_segments
from tests.support.tiers.stores import write_tier

T0 = TopicPartition("t", 0)


def test_a_stream_learns_where_it_begins_and_how_far_it_can_go() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [(None, b"x")] * 5)
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "t",
            "fetchOffset.retryIntervalMs": "1",
        }
        latest = SourceOptions.parse(given, streaming=True)
        assert start_offsets(latest) == StartOffsets({T0: 5}, frozenset({T0}))
        earliest = SourceOptions.parse(given | {"startingOffsets": "earliest"}, streaming=True)
        assert start_offsets(earliest) == StartOffsets({T0: 0}, frozenset())
        bounds = ask_bounds(latest, {T0: 3})
        assert (bounds.earliest, bounds.latest) == ({T0: 0}, {T0: 5})
        # A topic that was created anew ends before what was read; that counts after a few tries.
        assert ask_bounds(latest, {T0: 99}).latest == {T0: 5}


def test_a_query_that_is_ahead_of_the_tier_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    given = {"subscribe": "orders", "tier.uri": write_tier(two_segments(), tmp_path), "tier.metadata": "listing"}
    orders = TopicPartition("orders", 0)
    options = SourceOptions.parse(given, streaming=True)
    assert ask_bounds(options, {orders: 99}).latest == {orders: 99}
    assert ask_bounds(options, {orders: 9}).latest == {orders: 60}


def test_a_survey_is_made_again_until_it_reaches_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [4, 4, 9]

    def survey(_context: PlanContext, _only: object) -> Survey:
        return Survey({T0: PartitionSurvey(None, 0, ends.pop(0))})

    monkeypatch.setattr("crabka.spark.plan.latest.make_survey", survey)
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
    context = PlanContext(SourceOptions.parse(given, streaming=True), None, None)
    assert survey_reaching(context, {T0: 3}).partitions[T0].latest == 4
    assert survey_reaching(context, {T0: 8}).partitions[T0].latest == 9
    ends[:] = [4, 4, 4, 9]
    assert survey_reaching(context, {T0: 8}).partitions[T0].latest == 4
