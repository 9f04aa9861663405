"""`crabka tier` against a node and a tier in a directory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crabka.cli import session
from crabka.clients.sync.producer import SyncProducer
from crabka.remote.backends.local import ROOT_NAME
from crabka.remote.segments import IndexType, RemoteLogSegmentState
from crabka.remote_topic.settings import METADATA_TOPIC
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.tiers.planted import batches, segment_text, update
from tests.support.tiers.topic import TieredTopic
from tests.unit.cli.conftest import CommandResult, RunCommand

_names = (f"tiered-{number}" for number in itertools.count())

NewTieredTopic = Callable[[], TieredTopic]
Check = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def tier_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CrabkaProcess(tmp_path_factory.mktemp("tier-node"), {}) as node:
        yield node.bootstrap_servers


@pytest.fixture
def topic(tier_node: str, tmp_path: Path) -> TieredTopic:
    return TieredTopic(tier_node, tmp_path, next(_names))


@pytest.fixture
def check(crabka: RunCommand, topic: TieredTopic) -> Check:
    """Run verify or fsck on the topic."""

    def run(command: str, *arguments: str) -> CommandResult:
        return crabka(
            *("tier", command, topic.name, "--tier", topic.url, "--bootstrap", topic.bootstrap, "--grace", "0"),
            *arguments,
        )

    return run


def test_segments_are_listed(crabka: RunCommand, topic: TieredTopic) -> None:
    rows = crabka("tier", "ls", topic.name, "--json", "--bootstrap", topic.bootstrap).json
    assert [(row["start"], row["end"], row["epochs"], row["state"]) for row in rows] == [
        (0, 29, ["0=0"], "COPY_SEGMENT_FINISHED"),
        (30, 59, ["0=30", "2=45"], "COPY_SEGMENT_FINISHED"),
    ]
    assert [row["id"] for row in rows] == [segment_text(segment) for segment in topic.tier.segments]
    lines = crabka("tier", "ls", f"{topic.name}:0", "--bootstrap", topic.bootstrap).out.splitlines()
    assert lines[0].startswith("topic\tpartition\tstart\tend\tepochs\tstate\tsize_bytes\tage")
    assert len(lines) == 3
    assert crabka("tier", "ls", f"{topic.name}:1", "--bootstrap", topic.bootstrap).out.count("\n") == 1


def test_status_shows_local_and_remote(crabka: RunCommand, topic: TieredTopic) -> None:
    with SyncProducer(topic.bootstrap) as producer:
        for _ in range(100):
            producer.send(topic.name, b"x" * 100)
        producer.flush()
    (row,) = crabka("tier", "status", topic.name, "--json", "--bootstrap", topic.bootstrap).json
    assert (row["topic"], row["partition"], row["segments"]) == (topic.name, 0, 2)
    assert row["remote_bytes"] == sum(segment.segment_size_bytes for segment in topic.tier.segments)
    assert (row["start"], row["local_start"], row["tiered"], row["high_watermark"]) == (0, 0, 59, 100)
    assert row["local_bytes"] > 10_000
    assert row["lag_offsets"] == 40
    assert 0 < row["lag_bytes"] < row["local_bytes"]


def test_a_clean_tier_is_clean(check: Check) -> None:
    for command in ("verify", "fsck"):
        result = check(command)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("2 segments of 1 partitions, ")
        assert result.out.endswith(", 10 objects: clean\n")
    assert check("fsck", "--json").json["clean"] is True


def test_a_missing_object_is_a_line_and_exit_code_1(check: Check, topic: TieredTopic) -> None:
    topic.tier.remove(topic.tier.segments[1], IndexType.TIMESTAMP)
    topic.store()
    result = check("verify")
    assert result.code == 1
    fault, summary = result.out.splitlines()
    assert fault.startswith(f"damage missing-object {topic.name}-0-")
    assert ".timeindex: is not there; its segment holds offsets 30..59 -> restore it" in fault
    assert summary.endswith(": 1 damage")


def test_a_flipped_bit_is_found_by_fsck_only(check: Check, topic: TieredTopic) -> None:
    topic.tier.flip(topic.tier.segments[0], None, 8 * 100)
    topic.store()
    assert check("verify").code == 0
    found = check("fsck", "--json")
    assert found.code == 1
    (fault,) = found.json["faults"]
    assert (fault["kind"], fault["severity"], fault["topic"]) == ("corrupt-batch", "damage", topic.name)
    assert fault["segment"] == segment_text(topic.tier.segments[0])


def test_a_truncated_object_is_found(check: Check, topic: TieredTopic) -> None:
    segment = topic.tier.segments[0]
    topic.tier.put(segment, None, topic.tier.get(segment, None)[:-1])
    topic.store()
    assert [fault["kind"] for fault in check("verify", "--json").json["faults"]] == ["wrong-size"]
    assert check("fsck").code == 1


def test_a_gap_is_found(check: Check, topic: TieredTopic) -> None:
    segment = topic.tier.segments[0]
    topic.publish(
        [
            update(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED),
            update(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED),
        ]
    )
    topic.tier.storage.delete_log_segment_data(segment)
    topic.tier.add(batches(90, 2, epoch=2), [(0, 0), (2, 45)], partition=topic.partition)
    topic.publish(topic.tier.events[-2:])
    topic.store()
    (fault,) = check("verify", "--json").json["faults"]
    assert (fault["kind"], fault["detail"]) == ("gap", "offsets 60..89 are in no segment")


def test_orphans_are_deleted_only_if_asked(check: Check, topic: TieredTopic) -> None:
    topic.tier.add(batches(60, 2, epoch=2), [(0, 0), (2, 45)], partition=topic.partition)
    topic.store()
    young = check("fsck", "--grace", "60")
    assert young.code == 0
    found = check("fsck")
    assert found.code == 1
    assert "leak orphan-object" in found.out
    assert "5 objects" in found.out
    deleted = check("fsck", "--delete-orphans")
    assert deleted.code == 0
    assert deleted.out.startswith(f"deleted {topic.name}-0-")
    assert len(list(topic.root.rglob("*.*"))) == 10
    assert check("fsck").code == 0


def test_orphans_of_topics_that_the_cluster_never_knew_are_not_deleted(
    crabka: RunCommand, topic: TieredTopic, check: Check
) -> None:
    stranger = topic.root / f"{topic.name}-0-AAAAAAAAAAAAAAAAAAAAAQ"
    stranger.mkdir()
    (stranger / "00000000000000000000-AAAAAAAAAAAAAAAAAAAAAQ.log").write_bytes(b"of another cluster")
    result = check("fsck", "--delete-orphans")
    assert result.code == 1
    assert "orphan-object" in result.out
    assert "orphans were not deleted: some are of topics that this cluster never had" in result.out
    assert len(list(stranger.iterdir())) == 1


def test_states_that_do_not_pass_are_found(check: Check, topic: TieredTopic) -> None:
    first, second = topic.tier.segments
    topic.publish([update(first, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)])
    topic.publish([update(second, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)])
    found = check("verify", "--json").json["faults"]
    assert [fault["kind"] for fault in found] == ["illegal-state", "stuck-delete"]


def test_a_topic_that_is_gone_is_still_found_in_the_tier(crabka: RunCommand, check: Check, topic: TieredTopic) -> None:
    crabka("topics", "delete", topic.name, "--execute", "--bootstrap", topic.bootstrap)
    found = check("verify", "--json").json["faults"]
    assert [fault["kind"] for fault in found] == ["abandoned-segment"] * 2
    assert len(crabka("tier", "ls", topic.name, "--json", "--bootstrap", topic.bootstrap).json) == 2


def test_a_tier_named_by_a_properties_file(crabka: RunCommand, topic: TieredTopic, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage\n"
        f"rsm.config.dir={topic.directory}\nsome.key.of.a.plug-in=1\n"
    )
    result = crabka("tier", "verify", topic.name, "--config", str(properties), "--bootstrap", topic.bootstrap)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tier", "ftp://x"], "ftp://x is no storage"),
        (["--tier", "file:///nowhere"], "/nowhere is no tier"),
        (["--tier", "file:///", "--config", "x"], "--tier and --config exclude each other"),
        (["--config", "/no/such/file"], "cannot read /no/such/file"),
        ([], "the brokers have no remote storage"),
    ],
)
def test_what_cannot_be_checked_is_exit_code_2(
    crabka: RunCommand, topic: TieredTopic, arguments: list[str], words: str
) -> None:
    result = crabka("tier", "fsck", topic.name, "--bootstrap", topic.bootstrap, *arguments)
    assert result.code == 2
    assert result.err.startswith("crabka: could not check: ")
    assert words in result.err
    assert result.err.count("\n") == 1


def test_a_cluster_that_does_not_answer_cannot_be_checked(
    crabka: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "METADATA_TIMEOUT_MS", 100)
    (tmp_path / ROOT_NAME).mkdir()
    result = crabka("tier", "verify", "--tier", f"file://{tmp_path}", "--bootstrap", "127.0.0.1:1")
    assert result.code == 2


def test_an_unknown_topic_is_an_error(crabka: RunCommand, topic: TieredTopic) -> None:
    result = crabka("tier", "ls", "no-such-topic", "--bootstrap", topic.bootstrap)
    assert result.code == 2
    assert result.err == "crabka: neither the cluster nor the tier has a topic no-such-topic\n"


def test_a_metadata_topic_with_garbage_is_damage_and_keeps_orphans(check: Check, topic: TieredTopic) -> None:
    # Last in this module: the garbage stays in the topic of the shared node.
    with SyncProducer(topic.bootstrap) as producer:
        for partition in range(3):
            producer.send(METADATA_TOPIC, b"garbage", partition=partition)
        producer.flush()
    found = check("verify", "--json").json["faults"]
    assert {fault["kind"] for fault in found} == {"bad-event"}
    refused = check("fsck", "--delete-orphans")
    assert refused.code == 1
    assert "orphans were not deleted: parts of the metadata are lost" in refused.out


def test_segments_beyond_the_log_are_counted_listed_and_given_up(crabka: RunCommand, topic: TieredTopic) -> None:
    options = ("--bootstrap", topic.bootstrap)
    (row,) = crabka("tier", "status", topic.name, "--json", *options).json
    assert (row["high_watermark"], row["beyond_end"]) == (0, 2)
    with SyncProducer(topic.bootstrap) as producer:
        for _ in range(40):
            producer.send(topic.name, b"x")
        producer.flush()
    (row,) = crabka("tier", "status", topic.name, "--json", *options).json
    assert row["beyond_end"] == 1
    listed = crabka("tier", "forget", f"{topic.name}:0", *options)
    assert [line.split("\t")[2] for line in listed.out.splitlines()[1:]] == ["30"]
    assert "nothing was changed" in listed.err
    assert len(crabka("tier", "ls", topic.name, "--json", *options).json) == 2
    done = crabka("tier", "forget", f"{topic.name}:0", "--execute", *options)
    assert (done.code, done.err) == (0, "the leader deletes 1 segments\n")
    states = {row["start"]: row["state"] for row in crabka("tier", "ls", topic.name, "--json", *options).json}
    assert states == {0: "COPY_SEGMENT_FINISHED", 30: "DELETE_SEGMENT_STARTED"}
    assert [row["start"] for row in crabka("tier", "forget", f"{topic.name}:0", "--all", "--json", *options).json] == [
        0
    ]
    assert crabka("tier", "forget", topic.name, *options).code != 0
    assert crabka("tier", "forget", f"{topic.name}:7", *options).code != 0
