"""Kafka's console clients, its performance tool and kafka-dump-log agree with what the node stores."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.clients.foreign import CLIENTS, CODECS, Sent
from tests.support.clients.target import target_node
from tests.support.kafka.oracle import run_tool
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("jvm")]

BASE_MS = 1_700_000_000_000
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
XERIAL_MAGIC = b"\x82SNAPPY\x00"
# What kafka-dump-log prints only where it found a fault.
FAULTS = re.compile(
    r"isvalid: false|Mismatches in|Found .*(?:corrupt|mismatch|invalid)|out of order|Exception", re.IGNORECASE
)


def _console_produce(bootstrap: str, topic: str, lines: Iterable[str], *options: str) -> None:
    run_tool(PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, *options, stdin="\n".join(lines) + "\n")


def _console_consume(bootstrap: str, topic: str, *options: str) -> list[str]:
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"]
    return run_tool(CONSUMER, *where, "--timeout-ms", "20000", *options).stdout.splitlines()


def _segment_bytes(node: NodeProcess, topic: str) -> bytes:
    (segment,) = node.data_dir.rglob(f"{topic}-0/*.log")
    return segment.read_bytes()


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_is_read_by_every_client(
    node: NodeProcess, bootstrap: str, make_topic: TopicMaker, codec: str
) -> None:
    topic = make_topic()
    lines = [f"k{index}:value {index} 🦀" for index in range(30)]
    separated = ["--property", "parse.key=true", "--property", "key.separator=:"]
    _console_produce(bootstrap, topic, lines, "--compression-codec", codec, *separated)
    expected = [tuple(line.encode().split(b":")) for line in lines]
    for name, client in CLIENTS.items():
        found = client.consume(bootstrap, topic, len(lines), 0)
        assert [(read.row.key, read.row.value) for read in found] == expected, name
    assert (XERIAL_MAGIC in _segment_bytes(node, topic)) == (codec == "snappy")


@pytest.mark.parametrize("codec", CODECS)
def test_console_consumer_reads_what_librdkafka_wrote(
    node: NodeProcess, bootstrap: str, make_topic: TopicMaker, codec: str
) -> None:
    topic = make_topic()
    rows = [Sent(b"k%d" % index, b"value " * 20, (("h", b"1"), ("h", None)), BASE_MS + index) for index in range(30)]
    CLIENTS["confluent-kafka"].produce(bootstrap, topic, rows, codec)
    shown = ["print.timestamp", "print.offset", "print.key", "print.headers"]
    options = [word for name in shown for word in ("--formatter-property", f"{name}=true")]
    found = _console_consume(bootstrap, topic, "--offset", "earliest", "--max-messages", "30", *options)
    assert found == [
        f"CreateTime:{BASE_MS + index}\tOffset:{index}\th:1,h:null\tk{index}\t{'value ' * 20}" for index in range(30)
    ]
    assert XERIAL_MAGIC not in _segment_bytes(node, topic)


def test_console_consumer_starts_at_the_given_offset(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    CLIENTS["aiokafka"].produce(bootstrap, topic, [Sent(None, b"%d" % n, (), BASE_MS) for n in range(20)], "none")
    assert _console_consume(bootstrap, topic, "--offset", "15", "--max-messages", "3") == ["15", "16", "17"]


def test_console_tools_carry_headers_and_null_values(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    properties = ["parse.headers=true", "parse.key=true", "null.marker=NULL"]
    options = [word for item in properties for word in ("--property", item)]
    _console_produce(bootstrap, topic, ["a:1,a:2\tkey\tNULL", "NULL\tkey2\tvalue"], *options)
    rows = [read.row for read in CLIENTS["confluent-kafka"].consume(bootstrap, topic, 2, 0)]
    assert [row[:3] for row in rows] == [(b"key", None, (("a", b"1"), ("a", b"2"))), (b"key2", b"value", ())]


def test_console_consumer_shows_log_append_time(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    _console_produce(bootstrap, topic, ["v"])
    options = ["--offset", "earliest", "--max-messages", "1", "--formatter-property", "print.timestamp=true"]
    (line,) = _console_consume(bootstrap, topic, *options)
    assert re.fullmatch(r"LogAppendTime:\d{13}\tv", line)


def test_producer_perf_test_sends_everything(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=3)
    load = ["--topic", topic, "--num-records", "50000", "--record-size", "100", "--throughput", "-1"]
    shown = run_tool(PERFORMANCE, *load, "--bootstrap-server", bootstrap)
    assert re.match(r"50000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\)", shown.lines[-1])
    counted = run_tool(
        "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "latest"
    )
    assert sum(int(line.rpartition(":")[2]) for line in counted.lines) == 50_000


def _fill(bootstrap: str, topic: str) -> int:
    count = 0
    for codec in CODECS:
        for client in CLIENTS.values():
            rows = [Sent(b"%d" % n, b"value " * 300, (("h", b"1"),), BASE_MS + count + n) for n in range(60)]
            client.produce(bootstrap, topic, rows, codec)
            count += len(rows)
    return count


def _dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    shown = run_tool(DUMP, "--files", ",".join(str(file) for file in files), *options).stdout
    assert not FAULTS.search(shown), FAULTS.findall(shown)
    return shown


def test_dump_log_finds_no_fault_after_load_crash_and_clean_stop(tmp_path: Path) -> None:
    settings = {"log.index.interval.bytes": "1000", "log.segment.bytes": "1048576", "log.retention.ms": "-1"}
    node = target_node(tmp_path / "node", settings)
    with node:
        CLIENTS["confluent-kafka"].produce(
            node.bootstrap_servers, "dumped", [Sent(b"k", b"v" * 900_000, (), BASE_MS)], "none"
        )
        count = 1 + _fill(node.bootstrap_servers, "dumped")
        node.kill()
        node.start()
        count += _fill(node.bootstrap_servers, "dumped")
        values = [
            read.row.value for read in CLIENTS["confluent-kafka"].consume(node.bootstrap_servers, "dumped", count, 0)
        ]
        assert len(values) == count
        assert node.stop() in {0, 143}  # A JVM reports the signal that ended it.
    (folder,) = node.data_dir.rglob("dumped-0")
    files = {kind: sorted(folder.glob(f"*.{kind}")) for kind in ("log", "index", "timeindex", "snapshot")}
    assert len(files["log"]) > 1
    deep = _dump(*files["log"], options=("--deep-iteration",))
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", deep, re.MULTILINE)]
    assert offsets == list(range(count))
    assert len(re.findall("compresscodec: SNAPPY|compresscodec: snappy", deep)) > 0
    indexes = [*files["index"], *files["timeindex"]]
    assert _dump(*indexes, options=("--index-sanity-check",)).count("passed sanity check") == len(indexes)
    entries = _dump(*indexes)
    assert re.search(r"offset: \d+ position: [1-9]\d*", entries)
    assert re.search(r"timestamp: \d+ offset: \d+", entries)
    assert "Dumping" in _dump(*files["snapshot"])


def test_dump_log_decodes_the_metadata_log(tmp_path: Path) -> None:
    with target_node(tmp_path / "node") as node:
        CLIENTS["confluent-kafka"].produce(node.bootstrap_servers, "named", [Sent(None, b"v", (), BASE_MS)], "none")
        node.stop()
        (log,) = node.data_dir.rglob("__cluster_metadata-0/00000000000000000000.log")
        shown = _dump(log, options=("--cluster-metadata-decoder",))
        assert re.search(r'"type":"TOPIC_RECORD","version":0,"data":\{"name":"named"', shown)
        assert "LeaderChange" in shown
        for checkpoint in node.data_dir.rglob("__cluster_metadata-0/*.checkpoint"):
            assert "KRaftVersion" in _dump(checkpoint, options=("--cluster-metadata-decoder",))


def test_dump_log_finds_no_fault_in_cleaned_segments(tmp_path: Path) -> None:
    settings = {
        "log.cleanup.policy": "compact",
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.index.interval.bytes": "1000",
        "log.segment.bytes": "1048576",
    }
    node = target_node(tmp_path / "node", settings)
    with node:
        _fill_keys(node.bootstrap_servers, "kept")
        (folder,) = node.data_dir.rglob("kept-0")
        wait_until(lambda: _clean_up_to(folder) > 0, "the topic is cleaned")
        before = _clean_up_to(folder)
        _fill_keys(node.bootstrap_servers, "kept")
        wait_until(lambda: _clean_up_to(folder) > before, "the topic is cleaned again")
        node.kill()
        node.start()
        assert CLIENTS["confluent-kafka"].consume(node.bootstrap_servers, "kept", 40, 0)
        assert node.stop() in {0, 143}  # A JVM reports the signal that ended it.
    files = {kind: sorted(folder.glob(f"*.{kind}")) for kind in ("log", "index", "timeindex", "snapshot")}
    # A pass that the stop ended may leave a `.cleaned` file, which the next opening removes.
    assert [path.name for path in folder.iterdir() if path.suffix == ".swap"] == []
    deep = _dump(*files["log"], options=("--deep-iteration", "--print-data-log"))
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", deep, re.MULTILINE)]
    assert offsets == sorted(offsets)
    assert set(re.findall(r" key: (key-\d+) payload: \w", deep)) == {f"key-{n}" for n in range(40)}
    assert offsets[-1] - offsets[0] + 1 > len(offsets)
    assert "deleteHorizonMs: OptionalLong[" in deep
    indexes = [*files["index"], *files["timeindex"]]
    checked = _dump(*indexes, options=("--index-sanity-check",))
    # A segment with few batches left has no entry.
    assert len(re.findall(r"index (?:passed sanity check|is empty)\.", checked)) == len(indexes)
    assert "passed sanity check" in checked
    assert "Dumping" in _dump(*indexes, *files["snapshot"])


def _fill_keys(bootstrap: str, topic: str) -> None:
    """Write every key many times, in all codecs, and a tombstone."""
    for number, codec in enumerate(CODECS):
        for _ in range(5):
            rows = [
                Sent(b"key-%d" % n, random.Random(n).randbytes(4000).hex().encode(), (), BASE_MS) for n in range(40)
            ]
            rows.append(Sent(b"gone-%d" % number, None, (), BASE_MS))
            CLIENTS["confluent-kafka"].produce(bootstrap, topic, rows, codec)


def _clean_up_to(folder: Path) -> int:
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    topic, _, partition = folder.name.rpartition("-")
    return max((int(line.split()[2]) for line in lines if line.startswith(f"{topic} {partition} ")), default=0)
