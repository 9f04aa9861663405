from __future__ import annotations

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.plan.context import open_context
from crabka.spark.plan.resolve import resolve_end, resolve_start
from crabka.spark.plan.survey import make_survey
from crabka.spark.source.options import SourceOptions

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
