"""The kit's own client, through a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.embedded import Broker, Row
from crabka.embedded.client import topic_settings
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_records_come_back_with_all_that_they_have(broker: Broker) -> None:
    topic = broker.create_topic("all", 3)
    placed = broker.produce(
        topic, [b"a", ("k", None), Row("b", headers={"h": "1", "n": None}, timestamp=9)], partition=1
    )
    assert [each[:3] for each in placed] == [("all", 1, 0), ("all", 1, 1), ("all", 1, 2)]
    broker.produce(topic, [Row("c", partition=0)], partition=2)
    found = broker.records(topic)
    assert [(each.partition, each.offset, each.key, each.value) for each in found] == [
        (0, 0, None, b"c"),
        (1, 0, None, b"a"),
        (1, 1, b"k", None),
        (1, 2, None, b"b"),
    ]
    assert (found[-1].headers, found[-1].timestamp) == ((("h", b"1"), ("n", None)), 9)
    assert broker.records(topic, partition=2) == []
    with pytest.raises(LookupError, match="topic all has partitions 0 to 2, and no 3"):
        broker.records(topic, partition=3)


def test_many_records_are_read_whole(broker: Broker) -> None:
    values = [b"%06d" % number * 100 for number in range(5_000)]
    broker.produce("many", values)
    assert [each.value for each in broker.records("many")] == values


def test_aborted_records_and_markers_are_left_out(broker: Broker) -> None:
    broker.create_topic("txn")
    with SyncProducer(broker.bootstrap, ProducerSettings(transactional_id="t")) as producer:
        producer.init_transactions()
        for value in (b"committed", b"aborted"):
            producer.begin_transaction()
            producer.send("txn", value).result()
            if value == b"committed":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        # Markers may follow the answer.
        broker.wait_until(lambda: broker.produce("txn", ["end"])[0].offset >= 4)
    values = [each.value for each in broker.records("txn", read_committed=True)]
    assert values[0] == b"committed"
    assert set(values) == {b"committed", b"end"}
    assert b"aborted" in [each.value for each in broker.records("txn")]


def test_topics_are_created_with_settings_and_deleted(broker: Broker) -> None:
    broker.create_topic("set", 2, replicas=1, settings={"cleanup.policy": "compact", "retention.ms": 77})
    with SyncAdmin(broker.bootstrap) as admin:
        assert len(admin.describe_topics(["set"])["set"].partitions) == 2
        found = admin.describe_configs(ConfigOwner(ResourceType.TOPIC, "set"), ["cleanup.policy", "retention.ms"])
        assert {name: each.value for name, each in found.items()} == {"cleanup.policy": "compact", "retention.ms": "77"}
    broker.delete_topic("set")
    for ask in (broker.delete_topic, broker.records):
        with pytest.raises(OperationError):
            ask("set")
    with pytest.raises(ConfigError, match=r"unknown topic setting retention\.m, did you mean retention\.ms\?"):
        topic_settings({"retention.m": 1})


def test_lag_counts_what_is_not_committed(broker: Broker) -> None:
    topic = broker.create_topic("read", 2)
    broker.produce(topic, ["x"] * 5, partition=0)
    broker.produce(topic, ["x"] * 3, partition=1)
    with pytest.raises(LookupError, match="group g has not committed"):
        broker.lag("g")
    assert broker.lag("g", topic=topic) == 8
    with SyncAdmin(broker.bootstrap) as admin:
        admin.groups.alter_offsets("g", {TopicPartition(topic, 0): 4})
        assert broker.lag("g") == 4
        admin.groups.alter_offsets("g", {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 3})
    assert broker.lag("g") == broker.lag("g", topic=topic) == 0


def test_faults_and_journal_leave_the_kit_alone(broker: Broker) -> None:
    broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=None)
    broker.drop_connection(before="Fetch", times=None)
    broker.produce("own", ["a"])
    assert [each.value for each in broker.records("own")] == [b"a"]
    broker.clear_faults()
    assert broker.requests("Produce", client_id="crabka-test-kit") == []


def test_calls_from_many_threads_share_a_connection(broker: Broker) -> None:
    threads = [threading.Thread(target=broker.produce, args=("shared", [f"{number}"])) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(each.value or b"") for each in broker.records("shared")) == list(range(20))


def test_a_call_ends_when_the_broker_is_stopped() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        broker.pause()
        outcome: list[str] = []
        began = threading.Event()

        def ask() -> None:
            began.set()
            try:
                broker.produce("t", ["x"])
            except RuntimeError as error:
                outcome.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        began.wait()
        broker.kill()
        thread.join()
        assert outcome[0].startswith(("the broker was stopped while it was asked", "the broker is not running"))
        broker.start()
        broker.produce("t", ["y"])
