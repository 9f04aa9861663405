"""How long a suite of small tests takes, with a broker per run, per file, per test.

The tests are the same for both brokers: each makes a topic, produces to it, and reads it back as a member of a group,
with confluent-kafka. Only the fixture differs. Apache Kafka is started as testcontainers does it: a fresh directory is
formatted, a process is started, its port is awaited; the container itself is left out, which makes this a lower bound.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.rows import BenchRow, seen
from bench.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.suite import Watch

ROOT = Path(__file__).parents[2]
# A process of Kafka for each of 50 tests is what nobody waits for.
SCOPES = {"kafka": ("session", "module"), "crabka": ("session", "module", "function")}

# A stand-in for testcontainers' KafkaContainer.
KAFKA_CONFTEST = """
import tempfile
from pathlib import Path

import pytest

from tests.support.kafka.oracle import JvmKafka


@pytest.fixture(scope={scope!r})
def bootstrap():
    with tempfile.TemporaryDirectory() as directory:
        with JvmKafka(Path(directory), {{"group.initial.rebalance.delay.ms": "0"}}) as node:
            yield node.bootstrap_servers
"""
CRABKA_CONFTEST = """
import pytest

from crabka.embedded import Broker


@pytest.fixture(scope={scope!r})
def bootstrap():
    with Broker() as broker:
        yield broker.bootstrap_servers
"""
CONFTESTS = {"kafka": KAFKA_CONFTEST, "crabka": CRABKA_CONFTEST}
TESTS = """
import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.mark.parametrize("number", range({tests}))
def test_what_was_sent_is_read_back(bootstrap, number):
    topic = f"topic-{{uuid.uuid4().hex}}"
    admin = AdminClient({{"bootstrap.servers": bootstrap, "log_level": 0}})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)

    producer = Producer({{"bootstrap.servers": bootstrap, "log_level": 0}})
    for each in range(10):
        producer.produce(topic, b"%d" % each)
    assert producer.flush(60) == 0

    settings = {{"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    read = []
    while len(read) < 10:
        read += consumer.consume(10, 0.1)
    consumer.close()
    assert [message.value() for message in read] == [b"%d" % each for each in range(10)]
"""


@dataclass(frozen=True, slots=True)
class TestkitWork:
    """How many tests there are, and in how many files."""

    __test__ = False

    tests: int = 50
    files: int = 10


def suites(broker: str, work: TestkitWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Seconds that pytest takes for all tests, with brokers of each scope."""
    for scope in SCOPES[broker]:
        with TemporaryDirectory(prefix="bench-testkit-") as directory:
            write_suite(Path(directory), broker, scope, work)
            seconds, cpu_seconds = run_tests(Path(directory))
            yield f"suite_{scope}", seconds
            yield f"cpu_{scope}", cpu_seconds


def write_suite(directory: Path, broker: str, scope: str, work: TestkitWork) -> None:
    """Write the files of a suite."""
    (directory / "conftest.py").write_text(CONFTESTS[broker].format(scope=scope))
    for number in range(work.files):
        text = TESTS.format(tests=work.tests // work.files)
        (directory / f"test_{number}.py").write_text(text)


def run_tests(directory: Path) -> tuple[float, float]:
    """Run a suite; return its seconds from the start of Python to its end, and the CPU seconds of all its processes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu


def _row(scope: str, title: str) -> BenchRow:
    return BenchRow(f"suite_{scope}", title, "s", "suites", higher_is_better=False, bar=1.0, stretch=0.33)


def _cpu(scope: str, title: str) -> BenchRow:
    return seen(f"cpu_{scope}", title, "s", "suites", higher_is_better=False)


TESTKIT_ROWS = (
    _row("session", "50 small tests in 10 files, one broker for all"),
    _cpu("session", "CPU of tests and broker, one broker for all"),
    _row("module", "the same, a broker per file"),
    _cpu("module", "CPU of tests and brokers, a broker per file"),
    seen("suite_function", "the same, a broker per test", "s", "suites", higher_is_better=False),
    _cpu("function", "CPU of tests and brokers, a broker per test"),
)
TESTKIT_EXPERIMENTS = {"suites": suites}
TESTKIT = Suite(
    program="bench.testkit",
    rows=TESTKIT_ROWS,
    experiments=TESTKIT_EXPERIMENTS,
    full=TestkitWork(),
    quick=TestkitWork(10, 2),
    setting="Kafka with 1 GiB heap, without a container",
    name="testkit-latest",
    subject="Suites of small tests",
)
