"""The broker role of a node: how it makes itself known and takes its leave; compared with Kafka's own records."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.lifecycle.lifecycle import BrokerLifecycle
from crabka.broker.lifecycle.service import BrokerService
from crabka.ids import DIRECTORY_LOST
from crabka.metadata.records import ConfigRecord, decode_record
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from tests.support.nodes.sim_node import NODE_HOST, SimNode, row

METADATA_LOG = "/d1/__cluster_metadata-0/00000000000000000000.log"


def records(node: SimNode) -> list[Any]:
    data = node.memory.open(METADATA_LOG).pread(1 << 24, 0)
    found = []
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        for record in decode_records(data[position : position + header.size_in_bytes]):
            assert record.value is not None
            found.append((record.offset, decode_record(record.value)))
    return found


def names(node: SimNode) -> list[str]:
    return [type(message).__name__.split("RecordV")[0].removesuffix("Record") for _, message in records(node)]


def test_a_first_start_registers_and_unfences(node: SimNode) -> None:
    assert [name for name in names(node) if "Broker" in name] == ["RegisterBroker", "BrokerRegistrationChange"]
    node.advance(1_000)
    assert "RegisterController" in names(node)


def test_the_broker_epoch_is_the_offset_of_its_registration(node: SimNode) -> None:
    offset, registration = next(
        (offset, message) for offset, message in records(node) if type(message).__name__.startswith("RegisterBroker")
    )
    assert registration.broker_epoch == offset
    assert registration.fenced
    assert [(each.name, each.host, each.port) for each in registration.end_points] == [("PLAINTEXT", NODE_HOST, 9092)]
    assert registration.log_dirs == (node.context.logs.directory_id("/d1"),)


def test_a_stop_hands_leadership_over_and_a_start_takes_it_back(node: SimNode) -> None:
    node.create_topic("t", 2)
    before = len(names(node))
    node.restart()
    reported = [name for name in names(node)[before:] if name not in ("NoOp", "RegisterController")]
    assert reported == [
        # It wants to stop, leads nothing any more, and may go.
        "BrokerRegistrationChange",
        "PartitionChange",
        "PartitionChange",
        "BrokerRegistrationChange",
        # It is back.
        "RegisterBroker",
        "BrokerRegistrationChange",
        "PartitionChange",
        "PartitionChange",
    ]


def test_a_node_that_lost_power_is_not_asked_to_wait_for_its_own_session(node: SimNode) -> None:
    node.create_topic("t")
    node.crash()
    started = node.loop.time()
    node.start()
    assert node.loop.time() - started < 1


def test_a_broker_that_may_not_hand_over_just_stops() -> None:
    with SimNode({"controlled.shutdown.enable": "false"}) as node:
        node.create_topic("t")
        before = len(names(node))
        node.stop()
        assert [name for name in names(node)[before:] if name != "NoOp"] == []


def test_dirs_are_reported_once() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as two:
        two.create_topic("t", 2)
        two.advance(100)
        assert names(two).count("PartitionChange") == 2
        two.create_topic("u")
        two.advance(100)
        assert names(two).count("PartitionChange") == 3


def cordon(node: SimNode, paths: str) -> None:
    configs = [row("AlterableConfig", name="cordoned.log.dirs", config_operation=0, value=paths)]
    changed = row("AlterConfigsResource", resource_type=4, resource_name="1", configs=configs)
    answer = node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[changed], validate_only=False)
    assert answer.responses[0].error_code is ErrorCode.none
    # The next heartbeat informs the controller.
    node.advance(100)


def dirs_of(node: SimNode, topic: str) -> set[str]:
    return {partition.log.log_dir for partition in node.context.partitions.of_topic(topic).values()}


def test_settings_that_changed_while_the_logs_were_opened_are_in_force(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader with an old min.insync.replicas would acknowledge what its ISR does not keep."""
    node.create_topic("t")
    node.stop()
    load = BrokerService.load

    def setting(resource_type: int, resource: str, name: str, value: str) -> ConfigRecord:
        return ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)

    async def load_slowly(self: BrokerService) -> None:
        await load(self)
        changes = [setting(2, "t", "min.insync.replicas", "2"), setting(4, "", "message.max.bytes", "12345")]
        await self._quorum.append(changes)

    monkeypatch.setattr(BrokerService, "load", load_slowly)
    node.start()
    config = node.context.partitions.by_name("t", 0).log.config
    assert (config.min_insync_replicas, config.max_message_bytes) == (2, 12345)
    assert node.context.config.message_max_bytes == 12345


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_replica_that_is_lost_to_the_metadata_alone_is_reported_once_after_a_start(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, is_removed: bool
) -> None:
    topic = node.create_topic("t")

    def directory() -> object:
        return node.context.image.topics.by_name["t"].partitions[0].directory_of(1)

    own, reports = directory(), node.context.rebuilder.directories
    assert reports is not None
    assert node.run(reports.send({DIRECTORY_LOST: {topic.topic_id: [0]}}))
    assert directory() == DIRECTORY_LOST
    node.stop()
    if is_removed:
        node.memory.rmtree("/d1/t-0")
    asked: list[object] = []
    ask = DirectoryReports.ask

    async def counted(self: DirectoryReports, placements: Any) -> ErrorCode | None:
        asked.append(placements)
        return await ask(self, placements)

    monkeypatch.setattr(DirectoryReports, "ask", counted)
    node.start()
    assert directory() == own
    assert asked == [{own: {topic.topic_id: [0]}}]


def test_a_cordoned_dir_gets_no_new_partitions() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        cordon(node, "/d2")
        node.create_topic("first", 3)
        assert dirs_of(node, "first") == {"/d1"}
        directory = node.context.logs.directory_id("/d2")
        assert node.context.image.cluster.brokers[1].cordoned_directories == (directory,)
        cordon(node, "")
        node.create_topic("second", 3)
        assert dirs_of(node, "second") == {"/d2"}
        assert not node.context.image.cluster.brokers[1].cordoned_directories


def test_a_broker_whose_dirs_are_all_cordoned_gets_no_new_partitions() -> None:
    with SimNode({"cordoned.log.dirs": "*"}, log_dirs=("/d1", "/d2")) as node:
        refused = node.ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                row("CreatableTopic", name="t", num_partitions=1, replication_factor=1, assignments=(), configs=())
            ],
            timeout=1000,
            validate_only=False,
        )
        assert refused.topics[0].error_code is ErrorCode.invalid_replication_factor
        assert "cordoned" in refused.topics[0].error_message


def test_a_node_stops_when_a_lost_dir_cannot_be_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        monkeypatch.setattr(BrokerLifecycle, "lose_directories", lambda *_args: None)
        node.fail_dir("/d2")
        assert node.node is not None
        node.advance(29_000)
        assert not node.node.failed.done()
        node.advance(2_000)
        assert "could not be notified within 30000 ms" in str(node.node.failed.exception())


def test_a_node_goes_on_when_the_controller_knows_of_a_lost_dir() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.fail_dir("/d2")
        node.advance(60_000)
        assert node.node is not None
        assert not node.node.failed.done()
