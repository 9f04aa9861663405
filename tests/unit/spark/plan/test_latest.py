from __future__ import annotations

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from crabka.spark.plan.latest import ask_bounds, start_offsets
from crabka.spark.source.options import SourceOptions

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
        assert start_offsets(latest) == {T0: 5}
        earliest = SourceOptions.parse(given | {"startingOffsets": "earliest"}, streaming=True)
        assert start_offsets(earliest) == {T0: 0}
        bounds = ask_bounds(latest, {T0: 3})
        assert (bounds.earliest, bounds.latest) == ({T0: 0}, {T0: 5})
        # A topic that was created anew ends before what was read; that counts after a few tries.
        assert ask_bounds(latest, {T0: 99}).latest == {T0: 5}
