"""The tour behind `make run`."""

from __future__ import annotations

import json
import re
import socket

import pytest

from crabka.cli.session import with_cluster
from crabka.cli.story import story
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.cluster import Cluster
from crabka.ids import TopicPartition


def test_tour_ends_with_a_summary_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert story.run(["--once", "--records", "2500", "--no-spark"]) == 0
    out, err = capsys.readouterr()
    # Long lines of the panel go on in the next one.
    shown = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).replace("│", "").split())
    assert "2,500 records" in shown
    assert "every order came back exactly once, from the disk and from the tier" in shown
    assert "0.0 MB left on the disk; fsck: clean" in shown
    assert "make run leaves the node running" in shown
    assert "kcat" not in shown
    assert err == "", "a second display would draw over the tour's own"


def test_orders_are_the_same_at_every_tour() -> None:
    first, second = list(story.orders(3)), list(story.orders(3))
    assert first == second
    assert [json.loads(value)["order"] for _, value in first] == [0, 1, 2]
    assert all(json.loads(value)["customer"].encode() == key for key, value in first)


def test_missing_orders_end_the_tour(broker: str) -> None:
    async def read_too_many(cluster: Cluster) -> None:
        await Admin(cluster).create_topics([NewTopic(story.TOPIC, story.PARTITION_COUNT, 1)])
        starts = {TopicPartition(story.TOPIC, index): 0 for index in range(story.PARTITION_COUNT)}
        written = await story.write_orders(cluster, 10, lambda _: None)
        assert written.record_count == 10
        await story.read_orders(cluster, starts, 10, lambda _: None)
        moved = {**starts, TopicPartition(story.TOPIC, 0): starts[TopicPartition(story.TOPIC, 0)] + 1}
        await story.read_orders(cluster, moved, 9, lambda _: None)

    with pytest.raises(story.StoryError, match="9 orders were written, 9 came back"):
        with_cluster(broker, read_too_many)


def test_rates_are_readable() -> None:
    text = str(story.Measured(1_000_000, 50_000_000, 2.0))
    assert text == "1,000,000 records in 2.0 s: 500,000 records/s, 25.0 MB/s"


def test_taken_port_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(story, "DEFAULT_LISTEN", f"127.0.0.1:{port}")
        assert story.free_address() == "127.0.0.1:0"
    assert story.free_address() == f"127.0.0.1:{port}"


def test_node_that_does_not_start_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(story.StoryError, match="exit code 2"),
        story.running_node(story.Home("data", "tier", "lake"), "nowhere"),
    ):
        pass
    assert "is not an address" in capfd.readouterr().err


def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert story.run(["--records", "many"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
