"""The broker role of a node: how it makes itself known and takes its leave; compared with Kafka's own records."""

from __future__ import annotations

from typing import Any

from crabka.metadata.records import decode_record
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from tests.support.sim_node import NODE_HOST, SimNode

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
    told = [name for name in names(node)[before:] if name not in ("NoOp", "RegisterController")]
    assert told == [
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


def test_dirs_are_told_once() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as two:
        two.create_topic("t", 2)
        two.advance(100)
        assert names(two).count("PartitionChange") == 2
        two.create_topic("u")
        two.advance(100)
        assert names(two).count("PartitionChange") == 3
