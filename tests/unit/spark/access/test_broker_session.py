from __future__ import annotations

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import TopicChangedError

T0 = TopicPartition("t", 0)


def test_a_cluster_answers() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1, 1, {"retention.ms": "123456"})])
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [(None, b"x")] * 5)
        with BrokerSession(broker.bootstrap_servers, {"client.id": "me"}) as session:
            assert set(session.topics()) == {"t"}
            assert session.offsets({T0: EARLIEST}, read_committed=False) == {T0: 0}
            assert session.offsets({T0: LATEST}, read_committed=True) == {T0: 5}
            assert session.offsets({}, read_committed=True) == {}
            assert session.epoch_ends({T0: 0}) == {T0: LeaderEpochEnd(0, 5)}
            assert session.topic_configs("t", ["retention.ms"]) == {"retention.ms": "123456"}
            assert session.broker_configs()["node.id"] == "1"
            answer = session.fetch(T0, 2, FetcherSettings(), 10_000)
            assert [header.next_offset for _, header in iter_headers(answer.records)][-1] == 5
            beyond = session.fetch(T0, 99, FetcherSettings(), 10_000)
            assert beyond.error_code is ErrorCode.offset_out_of_range
            with pytest.raises(TopicChangedError, match="the topic t was deleted and created anew"):
                session.fetch(T0, 0, FetcherSettings(), 10_000, topic_id="ksqWDRxfTGu8jPNvmLEoUg")
            session.commit("watchers", {T0: 4})
        assert admin.groups.list_offsets("watchers")[T0].offset == 4


def test_a_missing_broker_is_reported() -> None:
    with BrokerSession("127.0.0.1:1", {}) as session, pytest.raises(ClientNetworkError):
        session.topics()


@pytest.mark.parametrize("text", ["0", "soon", "-5"])
def test_a_timeout_is_a_positive_number(text: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.request\.timeout\.ms"):
        BrokerSession("127.0.0.1:1", {"request.timeout.ms": text})


def test_a_bad_address_leaves_no_thread() -> None:
    with pytest.raises(ConfigError, match="not host:port"):
        BrokerSession("host:port:more", {})
