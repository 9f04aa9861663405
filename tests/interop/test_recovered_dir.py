"""A data dir that `crabka recover` made from a bucket alone: Apache Kafka starts on it and serves the whole tier."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from crabka.cli.main import execute
from crabka.clients import SyncAdmin, SyncProducer
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition, uuid_to_text
from tests.support.nodes.process import wait_until
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.node import read_rows
from tests.support.tiers.turns import KafkaTurn

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]


def _recover(node: KafkaTurn, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    node._write_properties()
    where = ["--tier", f"file://{node.tier}", "--config", str(node.properties_path)]
    assert execute(["recover", *where, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["partitions"]
    return rows


def _is_led(bootstrap: str, place: TopicPartition) -> bool:
    try:
        with SyncAdmin(bootstrap, timeout_ms=5_000) as admin:
            return admin.describe_topics([place.topic])[place.topic].partitions[place.partition].leader >= 0
    except CrabkaError:
        return False


@pytest.mark.parametrize("golden", ["single", pytest.param("overlap", marks=pytest.mark.slow)])
def test_kafka_serves_a_tier_from_its_objects_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: str
) -> None:
    expected = json.loads((GOLDEN / golden / "expected.json").read_text())
    shutil.copytree(GOLDEN / golden / "tier", tmp_path / "tier")
    node = KafkaTurn(tmp_path)
    recovered = _recover(node, capsys)
    with node:
        bootstrap = node.bootstrap_servers
        for row in recovered:
            topic, index = row["topic"], row["partition"]
            place = TopicPartition(topic, index)
            wait_until(partial(_is_led, bootstrap, place), f"{place} has a leader")
            with SyncAdmin(bootstrap) as admin:
                assert uuid_to_text(admin.describe_topics([topic])[topic].topic_id) == row["id"]
                assert admin.list_offsets({place: EARLIEST})[place].offset == row["start"]
                assert admin.list_offsets({place: LATEST})[place].offset == row["end"]
            for isolation in ("read_uncommitted", "read_committed"):
                tiered = [each for each in expected[isolation][topic][str(index)] if each[0] < row["end"]]
                read = read_rows(bootstrap, topic, index, isolation)
                # What was deleted at the start of a segment is there again: the objects do not show it.
                assert read[0][0] == row["start"]
                assert [each for each in read if each[0] >= tiered[0][0]] == tiered
        with SyncProducer(bootstrap) as producer:
            assert producer.send(recovered[0]["topic"], b"more", partition=0).result(120).offset == recovered[0]["end"]
        assert node.stop() in {0, 143}
