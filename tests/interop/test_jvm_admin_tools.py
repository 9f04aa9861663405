"""Kafka's own administration tools work against the node and print what they should."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType

from tests.support.kafka.oracle import ToolResult, run_tool
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("jvm")]

BASE_MS = 1_700_000_000_000
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
# kafka-get-offsets omits partitions whose answer is -1, such as those of a topic that is not tiered.
SPECIAL_TIMES = {
    "latest": ["0:3", "1:0"],
    "earliest": ["0:0", "1:0"],
    "max-timestamp": ["0:1"],
    "-4": ["0:0", "1:0"],
    "earliest-local": ["0:0", "1:0"],
    "latest-tiered": [],
    "earliest-pending-upload": [],
    str(BASE_MS + 15): ["0:1"],
    str(BASE_MS + 21): [],
}


def _tool(bootstrap: str, name: str, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(name, "--bootstrap-server", bootstrap, *arguments, check=check)


@pytest.fixture(scope="module")
def broker_id(admin: AdminClient) -> str:
    """Id of the only broker."""
    (broker,) = admin.list_topics(timeout=120).brokers
    return str(broker)


def test_kafka_topics_creates_describes_alters_and_deletes(bootstrap: str, broker_id: str, admin: AdminClient) -> None:
    topics = partial(_tool, bootstrap, TOPICS)
    settings = ["--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=1000000"]
    assert topics("--create", "--topic", "cli", *settings).lines == ["Created topic cli."]
    first, *partitions = topics("--describe", "--topic", "cli").lines
    head = r"Topic: cli\tTopicId: \S{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: (\S+)"
    matched = re.fullmatch(head, first)
    assert matched, first
    assert set(matched[1].split(",")) == {"min.insync.replicas=1", "retention.ms=1000000"}
    where = f"Leader: {broker_id}\tReplicas: {broker_id}\tIsr: {broker_id}\tElr: \tLastKnownElr: "
    assert partitions == [f"\tTopic: cli\tPartition: {index}\t{where}" for index in range(2)]
    topics("--alter", "--topic", "cli", "--partitions", "3")
    wait_until(lambda: len(admin.list_topics("cli", timeout=120).topics["cli"].partitions) == 3, "3 partitions show")
    again = topics("--create", "--topic", "cli", check=False)
    assert again.code == 1
    assert "Topic 'cli' already exists." in again.stdout + again.stderr
    assert topics("--delete", "--topic", "cli").code == 0
    wait_until(lambda: "cli" not in admin.list_topics(timeout=120).topics, "the topic is gone")


def test_kafka_topics_lists_names(bootstrap: str, make_topic: TopicMaker) -> None:
    names = {make_topic(), make_topic()}
    assert names <= set(_tool(bootstrap, TOPICS, "--list").lines)


def test_kafka_topics_says_when_a_topic_is_missing(bootstrap: str) -> None:
    missing = _tool(bootstrap, TOPICS, "--describe", "--topic", "missing", check=False)
    assert missing.code == 1
    assert "Topic 'missing' does not exist as expected" in missing.stdout + missing.stderr


def test_kafka_configs_sets_shows_and_deletes_topic_configs(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"retention.ms": "1000000"})
    entity = ["--entity-type", "topics", "--entity-name", topic]
    done = _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "max.message.bytes=200000")
    assert done.lines == [f"Completed updating config for topic {topic}."]
    head, *entries = _tool(bootstrap, CONFIGS, "--describe", *entity).lines
    assert head == f"Dynamic configs for topic {topic} are:"
    synonyms = "{DYNAMIC_TOPIC_CONFIG:max.message.bytes=200000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    assert sorted(entries) == [
        f"  max.message.bytes=200000 sensitive=false synonyms={synonyms}",
        "  retention.ms=1000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000000}",
    ]
    _tool(bootstrap, CONFIGS, "--alter", *entity, "--delete-config", "max.message.bytes")
    default = "  max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}"
    assert default in _tool(bootstrap, CONFIGS, "--describe", *entity, "--all").lines


def test_kafka_configs_changes_broker_defaults_and_one_broker(bootstrap: str, broker_id: str) -> None:
    kinds = {"default": ["--entity-default"], "own": ["--entity-name", broker_id]}
    for (name, entity), value in zip(kinds.items(), ("111000", "222000"), strict=True):
        done = _tool(
            bootstrap,
            CONFIGS,
            "--alter",
            "--entity-type",
            "brokers",
            *entity,
            "--add-config",
            f"log.retention.ms={value}",
        )
        said = "Completed updating default config for brokers in the cluster."
        assert done.lines == [said if name == "default" else f"Completed updating config for broker {broker_id}."]
    entity = ["--describe", "--entity-type", "brokers"]
    shared = _tool(bootstrap, CONFIGS, *entity, "--entity-default").stdout
    reported = "log.retention.ms=111000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=111000"
    assert reported in shared
    own = _tool(bootstrap, CONFIGS, *entity, *kinds["own"]).stdout
    assert (
        "log.retention.ms=222000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=222000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=111000, DEFAULT_CONFIG:log.retention.hours=168}"
    ) in own
    for alter in kinds.values():
        _tool(bootstrap, CONFIGS, "--alter", "--entity-type", "brokers", *alter, "--delete-config", "log.retention.ms")


def test_kafka_configs_shows_all_broker_configs(bootstrap: str, broker_id: str) -> None:
    entity = ["--entity-type", "brokers", "--entity-name", broker_id]
    shown = _tool(bootstrap, CONFIGS, "--describe", *entity, "--all").lines
    assert shown[0] == f"All configs for broker {broker_id} are:"
    values = dict(line.strip().partition(" ")[0].split("=", 1) for line in shown[1:])
    assert (values["node.id"], values["num.partitions"], values["message.max.bytes"]) == (broker_id, "1", "1048588")


def test_kafka_configs_lists_and_sets_log_levels(bootstrap: str, broker_id: str) -> None:
    entity = ["--entity-type", "broker-loggers", "--entity-name", broker_id]
    shown = _tool(bootstrap, CONFIGS, "--describe", *entity)
    assert shown.lines[0] == f"Dynamic configs for broker-logger {broker_id} are:"
    root = next(line for line in shown.lines if line.startswith("  root="))
    assert re.match(r"  root=(TRACE|DEBUG|INFO|WARN|ERROR|FATAL|OFF) sensitive=false synonyms=\{\}", root), root
    _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "root=WARN")
    assert "  root=WARN sensitive=false" in _tool(bootstrap, CONFIGS, "--describe", *entity).stdout
    _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "root=INFO")


def test_kafka_configs_stores_client_metrics_subscriptions(bootstrap: str) -> None:
    entity = ["--entity-type", "client-metrics", "--entity-name", "subscription"]
    _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "interval.ms=30000")
    shown = _tool(bootstrap, CONFIGS, "--describe", *entity).stdout
    assert "interval.ms=30000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=30000" in shown


def test_kafka_configs_stores_group_configs(bootstrap: str) -> None:
    entity = ["--entity-type", "groups", "--entity-name", "some-group"]
    done = _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "consumer.session.timeout.ms=50000")
    assert done.lines == ["Completed updating config for group some-group."]
    # The tool lists all groups before it describes one; other clients just ask.
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        shown = client.describe_configs([PythonConfigResource(ConfigResourceType.GROUP, "some-group")])
    finally:
        client.close()
    entry = shown["group"]["some-group"]["consumer.session.timeout.ms"]
    assert (entry["value"], entry["config_source"]) == ("50000", "DYNAMIC_GROUP_CONFIG")


def test_kafka_configs_stores_client_quotas(bootstrap: str) -> None:
    entity = ["--entity-type", "clients", "--entity-name", "app"]
    _tool(bootstrap, CONFIGS, "--alter", *entity, "--add-config", "producer_byte_rate=1000000")
    shown = _tool(bootstrap, CONFIGS, "--describe", *entity).stdout
    assert "Quota configs for client-id 'app' are producer_byte_rate=1000000.0" in shown


@pytest.fixture(scope="module")
def dated_topic(bootstrap: str, make_topic: TopicMaker) -> str:
    """Two partitions; the first has three records whose timestamps are out of order."""
    topic = make_topic(partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for stamp in (10, 20, 15):
        producer.produce(topic, b"v", partition=0, timestamp=BASE_MS + stamp)
    assert producer.flush(120) == 0
    return topic


@pytest.mark.parametrize("asked", SPECIAL_TIMES)
def test_kafka_get_offsets_knows_every_time(bootstrap: str, dated_topic: str, asked: str) -> None:
    shown = _tool(bootstrap, OFFSETS, "--topic", dated_topic, "--time", asked)
    assert shown.lines == [f"{dated_topic}:{line}" for line in SPECIAL_TIMES[asked]]


def test_kafka_delete_records_moves_the_log_start(bootstrap: str, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(120) == 0
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 6}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    shown = _tool(bootstrap, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 6" in shown.stdout
    assert _tool(bootstrap, OFFSETS, "--topic", topic, "--time", "-2").lines == [f"{topic}:0:6"]


def test_kafka_log_dirs_reports_sizes(bootstrap: str, broker_id: str, dated_topic: str, node: NodeProcess) -> None:
    shown = _tool(bootstrap, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", dated_topic)
    report = json.loads(shown.lines[-1])
    (broker,) = report["brokers"]
    assert str(broker["broker"]) == broker_id
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    assert directory["logDir"].startswith(str(node.data_dir))
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sizes[f"{dated_topic}-0"] > 0
    assert sizes[f"{dated_topic}-1"] == 0


def test_kafka_broker_api_versions_finds_every_needed_api_usable(bootstrap: str) -> None:
    shown = _tool(bootstrap, "org.apache.kafka.tools.BrokerApiVersionsCommand")
    assert shown.lines[0].startswith(f"{bootstrap} (id: ")
    usable = re.findall(r"(\w+)\((\d+)\): \d+(?: to \d+)? \[usable: (\d+)\]", shown.stdout)
    newest = {name: int(version) for name, _key, version in usable}
    expected = {"Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "ApiVersions": 4, "CreateTopics": 7}
    expected |= {"DeleteTopics": 6, "DeleteRecords": 2, "InitProducerId": 5, "OffsetForLeaderEpoch": 4}
    expected |= {"DescribeConfigs": 4, "AlterConfigs": 2, "DescribeLogDirs": 5, "CreatePartitions": 3}
    expected |= {"IncrementalAlterConfigs": 1, "DescribeClientQuotas": 1, "AlterClientQuotas": 1}
    expected |= {"UpdateFeatures": 2, "DescribeCluster": 2, "DescribeProducers": 0, "ListConfigResources": 1}
    expected |= {"DescribeTopicPartitions": 0, "DescribeUserScramCredentials": 0, "ElectLeaders": 2}
    expected |= {"AlterPartitionReassignments": 1, "ListPartitionReassignments": 0}
    assert {name: newest.get(name) for name in expected} == expected


def test_kafka_features_describe_shows_finalized_levels(bootstrap: str) -> None:
    shown = _tool(bootstrap, "org.apache.kafka.tools.FeatureCommand", "describe")
    pattern = r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
    found = {name: levels for name, *levels in re.findall(pattern, shown.stdout)}
    assert found["metadata.version"] == ["3.3-IV3", "4.3-IV0", "4.3-IV0"]
    assert found["kraft.version"] == ["0", "1", "1"]
    assert found["transaction.version"] == ["0", "2", "2"]
    assert found["group.version"] == ["0", "1", "1"]
    assert found["eligible.leader.replicas.version"] == ["0", "1", "1"]


def test_kafka_leader_election_finds_every_preferred_leader_in_place(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    elect = partial(_tool, bootstrap, "org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred")
    shown = elect("--topic", topic, "--partition", "1")
    assert shown.lines == [f"Valid replica already elected for partitions {topic}-1"]
    assert elect("--all-topic-partitions").lines == []
    missing = elect("--topic", topic, "--partition", "7", check=False)
    assert missing.code == 1
    assert "UnknownTopicOrPartitionException" in missing.stdout + missing.stderr


def test_kafka_reassign_partitions_executes_verifies_and_lists(
    bootstrap: str, broker_id: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(2)
    reassign = partial(_tool, bootstrap, "org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
    plan = tmp_path / "plan.json"

    def write(*replicas: int) -> None:
        rows = [{"topic": topic, "partition": index, "replicas": replicas} for index in range(2)]
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))

    write(int(broker_id))
    arguments = ["--reassignment-json-file", str(plan)]
    done = reassign("--execute", *arguments).stdout
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in done
    verified = reassign("--verify", *arguments).stdout
    assert verified.count("is completed.") == 2
    assert reassign("--list").lines == ["No partition reassignments found."]
    cancelled = reassign("--cancel", *arguments).stdout
    assert "None of the specified partition reassignments are active." in cancelled
    write(int(broker_id) + 1)
    refused = reassign("--execute", *arguments, check=False)
    assert refused.code == 1
    assert "Unknown broker id" in refused.stdout + refused.stderr
