"""Nodes, started by the command line, on copies of what Apache Kafka 4.3.0 left behind, and what clients see."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, Message, TopicPartition

from crabka.ids import uuid_from_text
from crabka.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from crabka.quorum.formatting import FormatPlan, write_format
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.runtime import real_runtime
from tests.support.nodes.crabka_up import CrabkaProcess, crabka_command
from tests.support.quorum.node import DIRECTORY_ID
from tests.support.recorded.files import GOLDEN
from tests.support.wire.ports import free_port

_TOPIC_RESOURCE = 2


class GoldenProcess(CrabkaProcess):
    """`crabka serve` with Kafka's own properties file, on a copy of its log dirs and its tier."""

    golden = "single"

    @property
    def source(self) -> Path:
        """What Kafka left."""
        return GOLDEN / self.golden

    @cached_property
    def expected(self) -> Any:
        """What Kafka itself answered about it."""
        return json.loads((self.source / "expected.json").read_text())

    @property
    def tier(self) -> Path:
        """The copy of the tier."""
        return self.directory / "tier"

    def log_dirs(self) -> list[Path]:
        """The copies of the log dirs."""
        return [self.directory / path.name for path in sorted(self.source.glob("d[12]"))]

    def _prepare(self) -> None:
        if not self.tier.exists():
            for path in (*self.log_dirs(), self.tier):
                shutil.copytree(self.source / path.name, path)

    def _command(self) -> Sequence[str]:
        port = free_port()
        overrides = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{free_port()}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": ",".join(str(path) for path in self.log_dirs()),
            "rsm.config.dir": str(self.tier),
            # By today's clock the open transactions of then have timed out long ago.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
        }
        command = [str(crabka_command()), "serve", "--config", str(self.source / "server.properties")]
        command.append("--insecure-ignore-security")
        for name, value in overrides.items():
            command += ["--override", f"{name}={value}"]
        return command


class OverlapProcess(GoldenProcess):
    """The same for `overlap`, of which only the partitions are kept: the metadata log is written anew."""

    golden = "overlap"

    def _prepare(self) -> None:
        if self.tier.exists():
            return
        super()._prepare()
        (log_dir,) = self.log_dirs()
        runtime = real_runtime()
        voter = VoterNode(1, DIRECTORY_ID, (VoterEndpoint("CONTROLLER", "127.0.0.1", 1),))
        plan = FormatPlan(
            cluster_id=self.expected["cluster_id"],
            node_id=1,
            log_dirs=[str(log_dir)],
            metadata_dir=str(log_dir),
            directory_ids={str(log_dir): DIRECTORY_ID},
            voters=(voter,),
        )
        write_format(runtime.fs, plan, now_ms=time.time_ns() // 1_000_000)
        runtime.threads.close()
        asyncio.run(self._append_topics(str(log_dir)))

    async def _append_topics(self, log_dir: str) -> None:
        runtime = real_runtime()
        try:
            quorum = await RaftQuorum.open(runtime, log_dir, 1)
            await quorum.wait_active()
            for name, topic in self.expected["topics"].items():
                if not topic["internal"]:
                    await quorum.append(self._topic_records(name, topic))
            await quorum.close()
        finally:
            runtime.threads.close()

    def _topic_records(self, name: str, topic: dict[str, Any]) -> list[Any]:
        topic_id = uuid_from_text(topic["topic_id"])
        partitions = [
            PartitionRecord(
                partition_id=each["partition"],
                topic_id=topic_id,
                replicas=(1,),
                isr=(1,),
                leader=1,
                leader_epoch=self.expected["list_offsets"]["latest"][f"{name}-{each['partition']}"]["leader_epoch"],
                partition_epoch=1,
                directories=(DIRECTORY_ID,),
            )
            for each in topic["partitions"]
        ]
        configs = [
            ConfigRecord(resource_type=_TOPIC_RESOURCE, resource_name=name, name=key, value=value)
            for key, value in self.expected["topic_configs_set"].get(name, {}).items()
        ]
        return [TopicRecord(name=name, topic_id=topic_id), *partitions, *configs]


def read_rows(bootstrap_servers: str, topic: str, partition: int, isolation: str) -> list[list[Any]]:
    """Return what librdkafka reads from offset 0 to the end, in the rows of expected.json."""
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
        last = ""
        while (message := consumer.poll(120)) is not None:
            error = message.error()
            if error is None:
                rows.append(_row(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return rows
            else:
                # A node that has just started may not be able to read its tier yet; the consumer asks again.
                last = str(error)
        raise AssertionError(f"the end of the partition was not reached: {last}")
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
