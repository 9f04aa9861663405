"""A Kafka Streams application with exactly_once_v2 counts exactly although it is killed midway."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.clients.foreign_transactions import last_stable_offset, read_settled
from tests.support.clients.target import target_node
from tests.support.kafka.oracle import TOOL_OPTIONS, java_command, require_jvm
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

SOURCE = Path(__file__).parent / "java" / "WordCounts.java"
PARTITIONS = 2
WORDS = [f"word-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with small internal topics whose groups do not wait for more members."""
    small = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
    settings = {**small, "group.initial.rebalance.delay.ms": "0"}
    with target_node(tmp_path_factory.mktemp("streams"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled application."""
    jars, directory = require_jvm(), tmp_path_factory.mktemp("classes")
    command = ["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(directory), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return directory


class Application:
    """The application as a process; each start goes on with the same state directory."""

    def __init__(self, classes: Path, directory: Path, arguments: list[str]) -> None:
        """Prepare, do not start."""
        self._out = directory / "application.out"
        options = [*TOOL_OPTIONS, f"-Djava.io.tmpdir={directory}"]
        command = java_command("WordCounts", *arguments, str(directory / "state"), options=options)
        path = command.index("-cp") + 1
        self._command = [*command[:path], f"{classes}:{command[path]}", *command[path + 1 :]]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with self._out.open("ab") as out:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def check_alive(self) -> None:
        """Fail with its output if it ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, self._out.read_text()[-4000:]


def _fill(bootstrap: str, topic: str, words: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 20})
    for number, word in enumerate(words):
        producer.produce(topic, word, partition=number % PARTITIONS)
    assert producer.flush(120) == 0


def _wait_output(admin: AdminClient, application: Application, topic: str, records: int) -> None:
    """Wait until so many offsets of the output are stable."""

    def reached() -> bool:
        application.check_alive()
        return sum(last_stable_offset(admin, topic, index) for index in range(PARTITIONS)) >= records

    wait_until(reached, f"{topic} has {records} stable offsets")


def _wait_all_words(admin: AdminClient, bootstrap: str, application: Application, topic: str, words: int) -> list[str]:
    """Wait until so many counts are committed, or more; returns them partition by partition."""

    def reached() -> list[str]:
        application.check_alive()
        found = [value.decode() for values in read_settled(admin, bootstrap, topic, PARTITIONS) for value in values]
        return found if len(found) >= words else []

    return wait_until(reached, f"{topic} has {words} counts")


def test_counts_are_exact_although_the_application_is_killed(
    node: NodeProcess,
    admin: AdminClient,
    make_topic: TopicMaker,
    classes: Path,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    source, sink = make_topic(PARTITIONS), make_topic(PARTITIONS)
    words = rng.choices(WORDS, k=scaled(3_000, 30_000))
    kills = scaled(1, 10)
    application = Application(classes, tmp_path, [node.bootstrap_servers, source, sink])
    share = len(words) // (kills + 1)
    try:
        application.start()
        for number in range(kills):
            _fill(node.bootstrap_servers, source, words[number * share : (number + 1) * share])
            _wait_output(admin, application, sink, number * share + rng.randrange(1, share))
            application.kill()
            application.start()
        _fill(node.bootstrap_servers, source, words[kills * share :])
        found = _wait_all_words(admin, node.bootstrap_servers, application, sink, len(words))
    finally:
        application.kill()
    counts: dict[str, list[int]] = {}
    for row in found:
        word, _, count = row.partition("=")
        counts.setdefault(word, []).append(int(count))
    # Every step of every count shows once and in order: nothing was counted twice, nothing was lost.
    assert counts == {word: list(range(1, total + 1)) for word, total in Counter(words).items()}
    internal = set(admin.list_topics(timeout=120).topics)
    assert {"word-counts-counts-changelog", "word-counts-by-word-repartition"} <= internal
