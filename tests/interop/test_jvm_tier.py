"""`crabka tier` on a tier that Apache Kafka keeps while we look at it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from crabka.cli.main import execute
from tests.support.kafka.oracle import LOCAL_TIER, JvmKafka
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

TOPIC = "tiered"
RECORDS = 3_000
TOPIC_SETTINGS = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1",
    "internal.segment.bytes": "20000",
    "index.interval.bytes": "500",
    "retention.ms": "-1",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JvmKafka]:
    """A broker with a topic of which everything is in the tier: plain, compressed and aborted records."""
    directory = tmp_path_factory.mktemp("kafka")
    (directory / "tier").mkdir()
    with JvmKafka(directory, LOCAL_TIER | {"rsm.config.dir": str(directory / "tier")}) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 2, 1, config=TOPIC_SETTINGS)])[TOPIC].result(120)
        _produce(node.bootstrap_servers)
        yield node


def _produce(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "tier", "compression.type": "lz4", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    for start in range(0, RECORDS, 100):
        producer.begin_transaction()
        for number in range(start, start + 100):
            producer.produce(TOPIC, f"{number} {'x' * (number % 97)}".encode(), partition=number % 2)
        # An abort would drop what is not sent yet.
        producer.flush(120)
        if start % 300:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def _tier(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = execute(["tier", *arguments, "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, json.loads(captured.out)


def test_a_live_tier_of_kafka_is_clean(kafka: JvmKafka, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap", kafka.bootstrap_servers]
    tier = ["--tier", f"file://{kafka.directory}/tier", "--grace", "0"]

    def rows() -> list[dict[str, int]]:
        found: list[dict[str, int]] = _tier(capsys, "status", TOPIC, *where)[1]
        return found

    wait_until(
        lambda: all(row["lag_offsets"] == 0 and row["local_start"] == row["high_watermark"] for row in rows()),
        "everything is in the tier and nothing on the disk",
        timeout_s=120,
    )
    for row in rows():
        assert row["start"] == 0
        assert row["tiered"] == row["high_watermark"] - 1
        assert row["segments"] > 1
        assert row["remote_bytes"] > row["local_bytes"]
    segments = _tier(capsys, "ls", TOPIC, *where)[1]
    assert {segment["state"] for segment in segments} == {"COPY_SEGMENT_FINISHED"}
    assert any(not segment["txn_index_empty"] for segment in segments)
    for arguments in (["verify"], ["fsck"], ["fsck", TOPIC]):
        code, result = _tier(capsys, *arguments, *where, *tier)
        assert (result["faults"], code) == ([], 0)
        assert result["segments"] == len(segments)


def test_the_doctor_examines_kafka(kafka: JvmKafka, capsys: pytest.CaptureFixture[str]) -> None:
    code = execute(
        ["doctor", "--json", "--bootstrap", kafka.bootstrap_servers, "--tier", f"file://{kafka.directory}/tier"]
    )
    report = json.loads(capsys.readouterr().out)
    assert report["software"] == "Apache Kafka"
    findings = {each["check"]: each for each in report["findings"]}
    # The disk and the limits of the machine that runs the tests are not what is tested.
    bad = {name for name, each in findings.items() if each["severity"] in ("error", "warning")}
    assert bad <= {"disks", "descriptors"}, [each for each in report["findings"] if each["check"] in bad]
    assert code == (1 if bad else 0)
    assert set(findings) >= {
        "addresses",
        "partitions",
        "transactions",
        "groups",
        "tier",
        "versions",
        "settings",
        "clock",
    }
    assert findings["tier"]["reason"] == "2 partitions tiered, no object is missing"
    assert findings["clock"]["reason"] == "the clock of controller 1 agrees with this machine"
    skipped = {each["check"]: each["reason"] for each in report["not_checked"]}
    assert skipped["damage"] == "Apache Kafka does not report it"


def test_damage_of_a_live_tier_is_found(kafka: JvmKafka, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--bootstrap", kafka.bootstrap_servers, "--config", str(kafka.properties_path)]
    found = wait_until(
        lambda: sorted((kafka.directory / "tier").rglob(f"{TOPIC}-0-*/*.log")), "there is a segment", timeout_s=120
    )
    path = found[0]
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[-1] ^= 4  # in the records of the last batch, never in a header
    path.write_bytes(spoiled)
    code, result = _tier(capsys, "fsck", TOPIC, *where)
    path.write_bytes(whole)
    assert code == 1
    assert [fault["kind"] for fault in result["faults"]] == ["corrupt-batch"]
    assert _tier(capsys, "fsck", TOPIC, *where)[0] == 0
