"""A node's life: start, stop, restart, crash, and what it cannot survive."""

from __future__ import annotations

import asyncio
import gc
import json
import pkgutil
import threading
from pathlib import Path
from typing import Any

import pytest

from crabka.broker.lifecycle.lifecycle import BrokerLifecycle
from crabka.config.server import ServerConfig
from crabka.embedded.nodes.one_node import one_node_config, open_node
from crabka.errors import ConfigError, InvariantError, StorageError
from crabka.log.dirs.log_dir import LogDir
from crabka.node.node import Node, _collect_more
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.runtime import real_runtime
from crabka.testing import FaultyFileSystem, disk_failure
from crabka.vfs import read_file, write_atomic
from tests.support.async_tests import real_time, run_with
from tests.support.nodes.sim_node import NODE_HOST, SimNode, batch


def test_a_restart_raises_leader_epochs_by_two(node: SimNode) -> None:
    node.create_topic("t")
    epochs = []
    for _ in range(3):
        epochs.append(node.context.image.topics.by_name["t"].partitions[0].leader_epoch)
        assert node.context.partitions.by_name("t", 0).leader_epoch == epochs[-1]
        node.produce("t", batch(b"a"))
        node.restart()
    assert epochs == [0, 2, 4]
    assert node.values("t") == [b"a"] * 3


def test_a_clean_stop_leaves_its_mark_with_the_broker_epoch(node: SimNode) -> None:
    epoch = node.context.image.cluster.brokers[1].epoch
    assert not node.memory.exists("/d1/.kafka_cleanshutdown")
    node.stop()
    content = node.memory.open("/d1/.kafka_cleanshutdown").pread(1000, 0)
    assert json.loads(content)["brokerEpoch"] == epoch


def test_a_crash_loses_only_what_was_not_flushed(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"flushed"))
    node.context.partitions.by_name("t", 0).log.flush()
    node.produce("t", batch(b"lost"))
    node.crash()
    node.start()
    assert node.values("t") == [b"flushed"]
    assert node.produce("t", batch(b"after"))[:2] == (ErrorCode.none, 1)


def test_topics_survive_a_crash(node: SimNode) -> None:
    created = node.create_topic("t", 2, retention_ms="5")
    node.crash()
    node.start()
    topic = node.context.image.topics.by_name["t"]
    assert (topic.topic_id, len(topic.partitions)) == (created.topic_id, 2)
    assert node.context.partitions.by_name("t", 1).log.config.retention_ms == 5


def test_stopping_twice_is_allowed(node: SimNode) -> None:
    running = node.node
    assert running is not None
    node.stop()
    node.run(running.stop())


def test_the_addresses_are_reported() -> None:
    with SimNode({"crabka.http.listener": f"{NODE_HOST}:8080"}) as node:
        assert node.node is not None
        assert node.node.bootstrap_servers == f"{NODE_HOST}:9092"
        assert node.node.side_port_address == f"{NODE_HOST}:8080"


@pytest.mark.parametrize("work", ["crabka.quorum.raft.quorum._open", "crabka.log.dirs.log_dir.LogDir.scan"])
@run_with(real_time)
async def test_a_start_that_is_given_up_keeps_its_dirs_while_a_thread_works_on_them(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be stopped: another process must not get the dirs before it is done."""
    began, may_end = threading.Event(), threading.Event()
    module, _, name = work.rpartition(".")
    blocking = pkgutil.resolve_name(work)

    def slow(*arguments: Any) -> Any:
        began.set()
        may_end.wait()
        return blocking(*arguments)

    monkeypatch.setattr(pkgutil.resolve_name(module), name, slow)

    runtime = real_runtime()
    try:
        node = open_node(runtime, one_node_config(str(tmp_path), "127.0.0.1", 0, {}))
        starting = asyncio.ensure_future(node.start())
        await asyncio.to_thread(began.wait)
        starting.cancel()
        other = LogDir(runtime.fs, str(tmp_path))
        await asyncio.wait([starting], timeout=0.05)
        with pytest.raises(ConfigError, match="locked by another process"):
            other.open()
        may_end.set()
        await asyncio.wait([starting])
        assert starting.cancelled()
        other.open()
        other.close()
    finally:
        may_end.set()
        runtime.threads.close()


def test_a_start_that_waits_for_a_quorum_that_died_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def register(lifecycle: BrokerLifecycle, _broker: object) -> int:
        # No answer will ever say that this broker is registered.
        lifecycle._fail(StorageError("/d1", "the disk of the metadata is gone"))
        return 1 << 40

    monkeypatch.setattr(BrokerLifecycle, "register", register)
    node = SimNode()

    async def start() -> None:
        async with asyncio.timeout(3600):
            await Node(node.config, node.runtime).start()

    with pytest.raises(StorageError, match="the disk of the metadata is gone"):
        node.run(start())
    monkeypatch.undo()
    # It has given back all that it had.
    with node:
        pass


def test_the_dirs_are_locked_until_the_quorum_is_left(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []
    close = RaftQuorum.close

    async def watched(self: RaftQuorum) -> None:
        try:
            LogDir(node.runtime.fs, "/d1").open()
        except ConfigError as error:
            refused.append(str(error))
        await close(self)

    monkeypatch.setattr(RaftQuorum, "close", watched)
    node.stop()
    assert refused == ["log dir /d1 is locked by another process or node"]


def test_a_step_of_the_stop_that_fails_does_not_keep_the_dirs(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_service: object) -> None:
        raise LookupError("where is it?")

    monkeypatch.setattr("crabka.controller.service.ControllerService.close", broken)
    with pytest.raises(LookupError):
        node.stop()
    assert node.memory.exists("/d1/.kafka_cleanshutdown")
    log_dir = LogDir(node.runtime.fs, "/d1")
    log_dir.open()
    log_dir.close()
    node.start()
    monkeypatch.undo()


def start_second(node: SimNode) -> Any:
    async def begin() -> None:
        second = Node(node.config, node.runtime)
        await second.start()

    return begin()


def test_a_second_node_on_the_same_dirs_touches_nothing(node: SimNode) -> None:
    path = "/d1/__cluster_metadata-0/00000000000000000000.log"
    before = node.memory.stat(path).size_bytes
    with pytest.raises(ConfigError, match="locked by another process"):
        node.run(start_second(node))
    assert node.memory.stat(path).size_bytes == before
    node.create_topic("t")
    node.restart()  # the first one still holds its lock and stops cleanly
    assert node.produce("t", batch(b"a")).error_code == ErrorCode.none


def test_a_metadata_dir_of_its_own_is_locked_too() -> None:
    with SimNode({"metadata.log.dir": "/meta"}) as node:
        node.create_topic("t")
        other, _ = ServerConfig.from_properties({**node.config.static, "log.dirs": "/elsewhere"})

        async def begin() -> None:
            await Node(other, node.runtime).start()

        with pytest.raises(ConfigError, match="/meta is locked by another process"):
            node.run(begin())
        node.restart()
        assert "t" in node.context.image.topics.by_name


def test_a_port_in_use_stops_the_start_and_gives_everything_back() -> None:
    with SimNode() as node:
        node.stop()
        blocker = node.run(node.network.host(NODE_HOST).listen(lambda: None, NODE_HOST, 9092))  # type: ignore[arg-type, return-value]
        with pytest.raises(ConfigError, match="cannot listen"):
            node.start()
        blocker.close()
        node.start()
        node.create_topic("t")


def test_an_unformatted_dir_is_refused() -> None:
    with SimNode() as node:
        node.stop()
        node.memory.rmtree("/d1")
        with pytest.raises(ConfigError):
            node.start()


@pytest.mark.parametrize("change", [(b"cluster.id=", b"cluster.id=x"), (b"node.id=1", b"node.id=2")])
def test_a_dir_of_another_cluster_or_node_is_refused(change: tuple[bytes, bytes]) -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.stop()
        path = "/d2/meta.properties"
        node.advance(1000)  # a change at the time of the formatting would be rot
        write_atomic(node.memory, path, read_file(node.memory, path).replace(*change))
        with pytest.raises(ConfigError, match="/d2 belongs to node"):
            node.start()


def test_a_changed_cluster_id_of_a_node_on_its_own_is_noticed() -> None:
    with SimNode() as node:
        node.create_topic("t")
        node.stop()
        path = "/d1/meta.properties"
        write_atomic(node.memory, path, read_file(node.memory, path).replace(b"cluster.id=", b"cluster.id=x"))
        with pytest.raises(ConfigError, match=r"restore cluster.id, or accept the new one"):
            node.start()


def failed(node: SimNode) -> BaseException:
    assert node.node is not None
    return node.run(_wait(node.node))


async def _wait(node: Node) -> BaseException:
    try:
        await node.failed
    except StorageError as error:
        return error
    raise AssertionError("the node should have failed")


def test_losing_the_last_dir_ends_the_node() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.fail_dir("/d2")
        assert node.node is not None
        assert not node.node.failed.done()
        node.fail_dir("/d1")
        assert "lost" in str(failed(node))


def test_losing_the_metadata_dir_ends_the_node() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.fail_dir("/d1")
        assert str(failed(node)) == "log dir /d1: the log dir of the metadata is lost"


def test_a_metadata_log_that_cannot_be_written_ends_the_node() -> None:
    with SimNode() as node:
        faulty = FaultyFileSystem(node.memory)
        node.fs = faulty
        node.restart()
        rule = faulty.add(disk_failure("/d1/__cluster_metadata-0/*"))
        with pytest.raises(ConnectionResetError):
            node.create_topic("t")
        assert "metadata log" in str(failed(node))
        faulty.remove(rule)


def test_a_failure_without_a_waiter_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with SimNode() as node:
        node.fail_dir("/d1")
    del node
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_turns_of_connections_end_by_the_clock_of_the_node(node: SimNode) -> None:
    assert node.node is not None
    # Without one only the number of requests would end a turn.
    assert node.node._listeners._turns._clock is node.context.runtime.clock


def test_cuts_and_losses_of_all_logs_are_among_the_metrics(node: SimNode) -> None:
    running = node.node
    assert running is not None
    assert running._quorum is not None
    found = {metric.name for metric in _collect_more(node.context, running._quorum)}
    wanted = {"crabka_log_cuts", "crabka_log_cut_bytes", "crabka_lossy_replicas", "crabka_metadata_log_cuts"}
    assert wanted <= found
    assert {"crabka_metadata_log_waits_for_lost_entries", "crabka_log_rebuilt_files"} <= found


def test_what_is_kept_but_not_enforced_is_said_at_start(node: SimNode, caplog: pytest.LogCaptureFixture) -> None:
    from tests.support.quorum.quotas import alter

    alter(node, {"user": "a"}, {"producer_byte_rate": 5.0})
    node.restart()
    assert "not enforced" not in caplog.text
    alter(node, {"user": "a"}, {"controller_mutation_rate": 5.0})
    alter(node, {"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})
    node.restart()
    assert "1 quotas on new connections: they are kept, but not enforced" in caplog.text


def test_a_node_that_was_not_started_has_no_context() -> None:
    with SimNode() as node:

        async def main() -> None:
            with pytest.raises(RuntimeError, match="not started"):
                _ = Node(node.config, node.runtime).context

        node.run(main())


@pytest.mark.parametrize("api_key", [ApiKey.DESCRIBE_CLUSTER, ApiKey.METADATA], ids=["sync", "async"])
def test_a_broken_invariant_ends_the_node(node: SimNode, monkeypatch: pytest.MonkeyPatch, api_key: ApiKey) -> None:
    def broken(_context: object, _request: object) -> None:
        raise InvariantError("two leaders")

    async def broken_later(_context: object, _request: object) -> None:
        raise InvariantError("two leaders")

    module = f"crabka.broker.handlers.{api_key.name.lower()}"
    monkeypatch.setattr(f"{module}.handle", broken if api_key is ApiKey.DESCRIBE_CLUSTER else broken_later)
    client = node.connect()
    client.transport.write(pack_request(RequestHeader(api_key, 0, 1, "c", 0), b"\0" * 8))
    node.advance(50)
    assert client.closed
    assert node.node is not None
    assert isinstance(node.node.failed.exception(), InvariantError)


def test_a_task_that_fails_unexpectedly_is_in_the_log_and_costs_nothing_else(
    node: SimNode, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise LookupError("where is it?")

    async def start() -> None:
        assert node.node is not None
        node.node._tasks.start(broken())

    node.run(start())
    node.advance(1)
    (record,) = [each for each in caplog.records if each.name == "crabka.node.node" and each.levelname == "ERROR"]
    assert "where is it?" in record.getMessage()
    assert record.exc_info
    assert node.node is not None
    assert not node.node.failed.done()


def test_a_request_that_fails_unexpectedly_is_reported_once(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_context: object, _request: object) -> None:
        raise LookupError("where is it?")

    monkeypatch.setattr("crabka.broker.handlers.metadata.handle", broken)
    client = node.connect()
    client.transport.write(pack_request(RequestHeader(ApiKey.METADATA, 0, 1, "c", 0), b"\0" * 8))
    node.advance(50)
    assert client.closed
    assert [each.name for each in caplog.records if each.levelname == "ERROR"] == ["crabka.net.connection"]


def test_open_files_grow_with_the_partitions(node: SimNode) -> None:
    assert node.node is not None
    before = node.node.open_file_count
    node.create_topic("t", partitions=3)
    assert node.node.open_file_count == before + 3
