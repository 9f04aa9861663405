"""Apache Kafka goes on with metadata that we wrote, and we with what it added."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabka.config.properties import parse_properties
from crabka.config.server import ServerConfig
from crabka.quorum.formatting import format_storage
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.settings import MetadataLogSettings
from crabka.runtime import real_runtime
from tests.support.kafka.oracle import JvmKafka, require_jvm, run_tool
from tests.support.nodes.process import wait_until
from tests.support.quorum.node import new_topic, topic_config

if TYPE_CHECKING:
    from pathlib import Path

    from crabka.metadata.image import MetadataImage


class _KafkaOnOurDirectory(JvmKafka):
    """Kafka whose log dir is formatted and filled by us."""

    def format(self) -> None:
        if self.properties_path.exists():
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        text = "\n".join(f"{key}={value}" for key, value in self._properties().items())
        self.properties_path.write_text(text + "\n")
        config, _ = ServerConfig.from_properties(parse_properties(text))
        runtime = real_runtime()
        try:
            format_storage(runtime, config, None)
        finally:
            runtime.threads.close()
        asyncio.run(_append_topics(str(self.data_dir)))


async def _append_topics(directory: str) -> None:
    runtime = real_runtime()
    try:
        settings = MetadataLogSettings(segment_bytes=2_000, max_record_bytes_between_snapshots=3_000)
        quorum = await RaftQuorum.open(runtime, directory, 1, QuorumOptions(log=settings))
        await quorum.wait_active()
        for number in range(40):
            await quorum.append(
                [*new_topic(f"ours-{number}", number), topic_config(f"ours-{number}", "retention.ms", "-1")]
            )
        await quorum.snapshot()
        await quorum.close()
    finally:
        runtime.threads.close()


async def _load(directory: str) -> MetadataImage:
    runtime = real_runtime()
    try:
        quorum = await RaftQuorum.open(runtime, directory, 1)
        await quorum.wait_active()
        await quorum.close()
        return quorum.image
    finally:
        runtime.threads.close()


def test_kafka_and_we_take_turns_on_one_metadata_log(tmp_path: Path) -> None:
    require_jvm()
    node = _KafkaOnOurDirectory(tmp_path / "node")
    with node:
        topics = run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap_servers, "--list")
        assert {f"ours-{number}" for number in range(40)} <= set(topics.lines)
        create = ("--create", "--topic", "theirs")
        run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap_servers, *create)
        arguments = ("--bootstrap-server", node.bootstrap_servers, "describe", "--status")
        status = run_tool("org.apache.kafka.tools.MetadataQuorumCommand", *arguments)
        # Our own start was epoch 1.
        assert any(line.split() == ["LeaderEpoch:", "2"] for line in status.lines)
    image = asyncio.run(_load(str(node.data_dir)))
    assert {"ours-0", "ours-39", "theirs"} <= set(image.topics.by_name)
    assert image.configs.get(2, "ours-7") == {"retention.ms": "-1"}
    assert image.epoch == 3


def test_the_metadata_shell_reads_our_snapshots(tmp_path: Path) -> None:
    require_jvm()
    node = _KafkaOnOurDirectory(tmp_path / "node")
    node.format()
    newest = max(node.data_dir.rglob("*-*.checkpoint"))
    command = ["org.apache.kafka.shell.MetadataShell", "--snapshot", str(newest), "ls", "/image/topics/byName"]
    # On a busy machine the shell may answer before it has loaded anything.
    wait_until(lambda: "ours-39" in run_tool(*command).stdout, "the shell shows our topics", timeout_s=120)
