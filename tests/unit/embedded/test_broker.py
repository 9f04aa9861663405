"""The embedded broker as its users see it."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crabka.clients.admin.admin_types import ConfigOwner, NewTopic, ResourceType
from crabka.clients.errors import FatalTransactionError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.fetcher import SyncFetcher
from crabka.clients.sync.producer import SyncProducer
from crabka.embedded import Broker
from crabka.embedded.nodes.thread_node import ThreadNode
from crabka.embedded.settings import Settings
from crabka.errors import ConfigError, StorageError
from crabka.ids import TopicPartition


@pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")
def test_port_and_records_stay_over_every_end() -> None:
    with Broker() as broker:
        address, data_dir = broker.bootstrap, broker.data_dir
        _create_topic(broker, "kept")
        for number, come_again in enumerate((Broker.restart, _stop_and_start, _kill_and_start)):
            with SyncProducer(broker.bootstrap_servers) as producer:
                producer.send("kept", b"%d" % number).result()
            come_again(broker)
            assert (broker.bootstrap_servers, broker.data_dir) == (address, data_dir)
        assert _values(broker, "kept") == [b"0", b"1", b"2"]
    assert not data_dir.parent.exists()


def test_a_given_directory_is_kept(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with Broker(data_dir=data_dir) as broker:
        _create_topic(broker, "kept")
    with Broker(data_dir=str(data_dir)) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        assert list(admin.list_topics()) == ["kept"]


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path), pytest.raises(ConfigError, match="locked"):
        Broker(data_dir=tmp_path).start()


def test_a_directory_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"the broker cannot use its directory: .*File exists"):
        Broker(data_dir=tmp_path / "file").start()
    with pytest.raises(ConfigError, match="a port is a number"):
        Broker(port=-1)


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} of 127\.0\.0\.1 cannot be used: Address already in use"):
            Broker(port=port).start()


def test_async_context_manager_serves() -> None:
    async def scenario() -> str:
        async with Broker() as broker:
            return await asyncio.to_thread(_cluster_id, broker.bootstrap_servers)

    assert len(asyncio.run(scenario())) == 22


def test_settings_of_every_type_reach_the_node(tmp_path: Path) -> None:
    settings: Settings = {
        "num.partitions": 4,
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "metadata.log.dir": tmp_path / "meta",
    }
    with Broker(settings) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        found = admin.describe_configs(ConfigOwner(ResourceType.BROKER, "1"))
        assert [found[name].value for name in settings] == ["4", "false", "0.25", str(tmp_path / "meta")]


def test_a_tier_is_switched_on_and_settings_still_win(tmp_path: Path) -> None:
    settings = {"remote.log.manager.task.interval.ms": 77}
    for tier in (tmp_path / "cold", f"file://{tmp_path}/cold"):
        with Broker(settings, tier=tier) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
            found = admin.describe_configs(ConfigOwner(ResourceType.BROKER, "1"))
            assert found["remote.log.storage.system.enable"].value == "true"
            assert found["remote.log.manager.task.interval.ms"].value == "77"
    with pytest.raises(ConfigError, match="is no storage"):
        Broker(tier="ftp://x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num.partitions": "many"}, r"Invalid value many for configuration num\.partitions: Not a number of type INT"),
        ({"num.partition": 1}, r"unknown setting num\.partition, did you mean num\.partitions\?"),
        ({"controller.quorum.voters": "1@a:1,2@b:2"}, r"use crabka\.embedded\.Cluster\(nodes=3\)"),
    ],
)
def test_bad_settings_are_one_clear_error(settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Broker(settings)


def test_retention_and_timeouts_need_no_waiting() -> None:
    with Broker(virtual_time=True) as broker:
        broker.create_topic("t", settings={"retention.ms": 3_600_000})
        broker.produce("t", ["old"])
        broker.advance(7_200)
        broker.wait_until(lambda: broker.records("t") == [], 60)
        broker.produce("t", ["new"])
        broker.stop()
        broker.advance(60)
        broker.start()
        assert [each.value for each in broker.records("t")] == [b"new"]

        settings = ProducerSettings(transactional_id="a", transaction_timeout_ms=60_000)
        with SyncProducer(broker.bootstrap, settings) as producer:
            broker.create_topic("txn")
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("txn", b"open").result()
            broker.produce("txn", ["after"])
            assert broker.records("txn", read_committed=True) == []
            broker.advance(120)
            broker.wait_until(lambda: broker.records("txn", read_committed=True), 60)
            with pytest.raises(FatalTransactionError):
                producer.commit_transaction()
        assert broker.is_running


def test_time_that_cannot_be_moved_is_said_to_be() -> None:
    with pytest.raises(ValueError, match="leave out process=True"):
        Broker(process=True, virtual_time=True)
    with pytest.raises(RuntimeError, match="virtual_time=True"):
        Broker().advance(1)
    for seconds in (-1, math.nan):
        with pytest.raises(ValueError, match="moves forward"):
            Broker(virtual_time=True).advance(seconds)


def test_what_a_test_did_is_undone() -> None:
    with Broker() as broker:
        broker.delay("Fetch", 1)
        broker.pause()
        broker.restore()
        broker.kill()
        broker.restore()
        assert broker.is_running
        assert not list(broker._edge().faults)


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker()
    for ask in (lambda: broker.bootstrap_servers, lambda: broker.data_dir, broker.pause):
        with pytest.raises(RuntimeError, match=r"not running|start it first"):
            ask()
    assert not broker.is_running
    broker.stop()
    broker.kill()
    broker.close()
    with broker, pytest.raises(RuntimeError, match="running already"):
        broker.start()


def test_the_reason_of_a_failure_is_raised_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker().start()
    monkeypatch.setattr(ThreadNode, "failure", StorageError("/d", "the disk is gone"))
    assert not broker.is_running
    for ask in (
        lambda: broker.bootstrap_servers,
        broker.requests,
        lambda: broker.fail_next("Produce", "UNKNOWN_TOPIC_ID"),
    ):
        with pytest.raises(RuntimeError, match=r"the broker has failed: .*the disk is gone"):
            ask()
    # It was reported.
    broker.close()
    broker.start()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        broker.close()
    with pytest.raises(RuntimeError, match="start it first"):
        _ = broker.data_dir


def test_faults_and_journal_outlive_a_restart() -> None:
    with Broker() as broker:
        broker.fail_next("Metadata", "REQUEST_TIMED_OUT", topic="t")
        broker.restart()
        _create_topic(broker, "t")
        assert [each.api for each in broker.requests("CreateTopics")] == ["CreateTopics"]
        assert "CreateTopics v" in str(broker.journal)
        broker.clear_faults()
    with Broker(journal=False) as broker, pytest.raises(RuntimeError, match="journal=True"):
        broker.requests()


def test_a_child_process_has_no_faults() -> None:
    with pytest.raises(RuntimeError, match="leave out process=True"):
        Broker(process=True).delay("Fetch", 1)


def test_a_stop_waits_for_a_start_of_another_thread() -> None:
    broker = Broker()
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(_outcome, [broker.start, broker.stop, broker.kill] * 8))
    broker.close()
    assert {outcome for outcome in outcomes if outcome} <= {"the broker is running already"}


def test_other_processes_get_the_address_and_not_the_broker() -> None:
    with Broker() as broker:
        with pytest.raises(TypeError, match="bootstrap_servers"):
            pickle.dumps(broker)
        child = os.fork()
        if not child:
            try:
                broker.stop()
            except RuntimeError as error:
                os._exit(7 if "belongs to process" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert _cluster_id(broker.bootstrap_servers)


def _stop_and_start(broker: Broker) -> None:
    broker.stop()
    broker.start()


def _kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


def _outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except RuntimeError as error:
        return str(error)
    return ""


def _values(broker: Broker, topic: str) -> list[bytes | None]:
    with SyncFetcher(broker.bootstrap_servers, FetcherSettings()) as fetcher:
        fetcher.assign({TopicPartition(topic, 0): 0})
        return [record.value for record in fetcher.poll(10_000)]


def _create_topic(broker: Broker, name: str) -> None:
    with SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name)])


def _cluster_id(bootstrap_servers: str) -> str:
    with SyncAdmin(bootstrap_servers) as admin:
        return admin.cluster.describe().cluster_id or ""
