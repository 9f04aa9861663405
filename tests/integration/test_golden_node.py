"""A whole node, started by the command line, on directories that Apache Kafka 4.3.0 left behind."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Message, TopicPartition

from tests.support.crabka_process import CrabkaProcess, crabka_command
from tests.support.golden import GOLDEN
from tests.support.node_process import free_port

SINGLE = GOLDEN / "single"
EXPECTED: dict[str, Any] = json.loads((SINGLE / "expected.json").read_text())
PARTITIONS = [
    (topic, int(partition))
    for topic, partitions in EXPECTED["read_uncommitted"].items()
    for partition in partitions
    if not topic.startswith("tiered")
]


class GoldenProcess(CrabkaProcess):
    """`crabka serve` with Kafka's own properties file, on a copy of its log dirs."""

    def _prepare(self) -> None:
        if not (self.directory / "d1").exists():
            for name in ("d1", "d2", "tier"):
                shutil.copytree(SINGLE / name, self.directory / name)

    def _command(self) -> Sequence[str]:
        port = free_port()
        overrides = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{free_port()}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": f"{self.directory / 'd1'},{self.directory / 'd2'}",
            "rsm.config.dir": str(self.directory / "tier"),
            # By today's clock the open transactions of then have timed out long ago.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
        }
        command = [str(crabka_command()), "serve", "--config", str(SINGLE / "server.properties")]
        command.append("--insecure-ignore-security")
        for name, value in overrides.items():
            command += ["--override", f"{name}={value}"]
        return command


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenProcess]:
    """The node on golden data, for all tests of this module."""
    with GoldenProcess(tmp_path_factory.mktemp("golden")) as process:
        yield process


@pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
def test_rows_are_what_kafka_answered(node: GoldenProcess, topic: str, partition: int, isolation: str) -> None:
    expected = EXPECTED[isolation][topic][str(partition)]
    assert _read(node.bootstrap_servers, topic, partition, isolation) == expected


def test_unenforced_security_is_named_at_the_start(node: GoldenProcess) -> None:
    words = node.stderr_text()
    assert "ACLs" in words
    assert "SCRAM credentials" in words
    assert "client quotas" in words
    assert "authorizer.class.name" in words


def _read(bootstrap_servers: str, topic: str, partition: int, isolation: str) -> list[list[Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        rows = []
        while (message := consumer.poll(30)) is not None:
            if message.error() is not None:
                break
            rows.append(_row(message))
        assert message is not None, "the end of the partition was not reached"
        return rows
    finally:
        consumer.close()


def _row(message: Message) -> list[Any]:
    kind, timestamp = message.timestamp()
    given: Any = message.headers() or []
    headers = [[name, _text(value)] for name, value in given]
    type_name = "CreateTime" if kind == TIMESTAMP_CREATE_TIME else "LogAppendTime"
    return [
        message.offset(),
        timestamp,
        _text(message.key()),
        _text(message.value()),
        headers,
        type_name,
        message.leader_epoch(),
    ]


def _text(value: Any) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
