from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.options.selection import EarliestLimit, GlobalTimestampLimit, LatestLimit, OffsetsLimit
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext, open_context
from crabka.spark.plan.resolve import is_resolved_late, resolve_end, resolve_start
from crabka.spark.plan.survey import PartitionSurvey, Survey, make_survey

if TYPE_CHECKING:
    from crabka.spark.access.broker_session import BrokerSession

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def resolved(broker: Broker, **more: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
    options = SourceOptions.parse(given | more, streaming=False)
    with open_context(options) as context:
        survey = make_survey(context)
        starts = resolve_start(context, survey, options.starting)
        return starts, resolve_end(context, survey, options.ending)


def test_limits_become_offsets_by_what_brokers_say() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 2)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            for number in range(6):
                producer.send("t", b"x", partition=number % 2, timestamp=1000 + number).result()
        assert resolved(broker) == ({T0: 0, T1: 0}, {T0: 3, T1: 3})
        offsets = {"startingOffsets": '{"t":{"0":1,"1":-2}}', "endingOffsets": '{"t":{"0":2,"1":-1}}'}
        assert resolved(broker, **offsets) == ({T0: 1, T1: 0}, {T0: 2, T1: 3})
        times = {"startingTimestamp": "1002", "endingTimestamp": "9999999999999"}
        assert resolved(broker, **times) == ({T0: 1, T1: 1}, {T0: 3, T1: 3})
        each = {"startingOffsetsByTimestamp": '{"t":{"0":1003,"1":1003}}'}
        assert resolved(broker, **each)[0] == {T0: 2, T1: 1}
        with pytest.raises(ConfigError, match="no record of t-0 is of 1005 or later"):
            resolved(broker, startingTimestamp="1005")
        lenient = {"startingTimestamp": "1005", "startingOffsetsByTimestampStrategy": "latest"}
        assert resolved(broker, **lenient)[0] == {T0: 3, T1: 2}
        with pytest.raises(ConfigError, match="startingOffsetsByTimestamp must name all partitions"):
            resolved(broker, startingOffsetsByTimestamp='{"t":{"0":5}}')


class TimeSession:
    """Knows a time that lies after the end of the tier."""

    def offsets(self, asked: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        del read_committed
        return dict.fromkeys(asked, 80)


def of_tier(*, streaming: bool, **more: str) -> PlanContext:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "read.mode": "tier", "tier.uri": "file:///x"}
    options = SourceOptions.parse(given | more, streaming=streaming)
    return PlanContext(options, cast("BrokerSession", TimeSession()), None)


def test_a_time_after_the_end_of_what_can_be_read_has_no_match() -> None:
    survey = Survey({T0: PartitionSurvey(None, 0, 60)})
    ending = of_tier(streaming=False, endingTimestamp="1")
    assert resolve_end(ending, survey, ending.options.ending) == {T0: 60}
    starting = of_tier(streaming=False, startingTimestamp="1")
    with pytest.raises(ConfigError, match="no record of t-0 is of 1 or later"):
        resolve_start(starting, survey, starting.options.starting)
    lenient = of_tier(streaming=False, startingTimestamp="1", startingOffsetsByTimestampStrategy="latest")
    assert resolve_start(lenient, survey, lenient.options.starting) == {T0: 60}
    # A streaming query waits until the tier has it.
    stream = of_tier(streaming=True, startingTimestamp="1")
    assert resolve_start(stream, survey, stream.options.starting) == {T0: 80}


def test_earliest_and_latest_are_known_late() -> None:
    assert is_resolved_late(EarliestLimit(), T0)
    assert is_resolved_late(LatestLimit(), T0)
    assert is_resolved_late(OffsetsLimit({T0: -1, T1: 5}), T0)
    assert is_resolved_late(OffsetsLimit({T0: -2, T1: 5}), T0)
    assert not is_resolved_late(OffsetsLimit({T0: -2, T1: 5}), T1)
    assert not is_resolved_late(GlobalTimestampLimit(5), T0)
