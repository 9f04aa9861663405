"""The experiments on moves between log dirs: each starts a node with two of them and fills some rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.brokers import TOPIC, cpu_seconds, create_topic
from bench.loads import fill_partition, produce_timed
from bench.log_dirs import running_on_two_dirs, throttle_moves, timed_copy, timed_move
from bench.stats import percentile
from bench.suite import Experiment, Watch
from tests.support.moves.log_dirs import move as move_partition
from tests.support.moves.log_dirs import places
from tests.support.nodes.process import NodeProcess

VALUE_BYTES = 1024
BATCHES = {"batch.size": 1_000_000, "batch.num.messages": 900}
RATE = 5_000
# Whoever asks often takes time from those who are measured.
RARELY_S = 0.5


@dataclass(frozen=True, slots=True)
class MoveWork:
    """How much work each experiment does."""

    moved_bytes: int = 1 << 30
    throttled_bytes: int = 512 << 20
    throttle_bytes_per_second: int = 40 << 20
    # A move that takes most of a phase: at its end appends wait, which is a measurement of its own.
    latency_bytes: int = 2 << 30
    phase_seconds: float = 10.0
    phase_rounds: int = 2


QUICK_MOVES = MoveWork(256 << 20, 64 << 20, 20 << 20, 512 << 20, 3.0, 1)


def move(broker: str, work: MoveWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """Move a partition that nobody writes to, and copy its files without a broker before and after."""
    with running_on_two_dirs(broker) as node:
        size = _fill(node, work.moved_bytes)
        copy_seconds = timed_copy(node)
        with watch(node.pid):
            cpu_before = cpu_seconds(node)
            seconds = timed_move(node)
            used = cpu_seconds(node) - cpu_before
        # Before and after, so that a drift of the machine hits both.
        copy_seconds = (copy_seconds + timed_copy(node)) / 2
    yield "move_rate", size / seconds / 1e6
    yield "move_cpu", used / (size / 1e9)
    yield "cp_rate", size / copy_seconds / 1e6
    yield "move_of_cp", copy_seconds / seconds


def throttle(broker: str, work: MoveWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Move a partition with a throttle."""
    with running_on_two_dirs(broker) as node:
        size = _fill(node, work.throttled_bytes)
        throttle_moves(node, work.throttle_bytes_per_second)
        rate = size / timed_move(node)
    yield "throttle_error", abs(rate / work.throttle_bytes_per_second - 1) * 100


def latency(broker: str, work: MoveWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """A steady load beside a partition that moves at half the speed of the disk; phases with and without take turns."""
    alone: list[float] = []
    beside: list[float] = []
    with running_on_two_dirs(broker) as node:
        size = _fill(node, work.latency_bytes)
        throttle_moves(node, int(size / timed_copy(node) / 2))
        _latencies(node, work.phase_seconds)
        with watch(node.pid):
            for _round in range(work.phase_rounds):
                alone += _latencies(node, work.phase_seconds)
                with _moving(node):
                    beside += _latencies(node, work.phase_seconds)
    yield "produce_p99", percentile(alone, 99)
    yield "produce_p99_move", percentile(beside, 99)
    yield "produce_slowdown", percentile(beside, 99) / percentile(alone, 99)


def swap(broker: str, work: MoveWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """The longest that a record waited for its acknowledgement while the partition that it went to was moved."""
    with running_on_two_dirs(broker) as node:
        _fill(node, work.moved_bytes)
        _latencies(node, work.phase_seconds)
        with _moving(node):
            found = _latencies(node, work.phase_seconds)
    yield "longest_wait", max(found)


def _latencies(node: NodeProcess, seconds: float) -> list[float]:
    return [waited for _sent, waited in produce_timed(node.bootstrap_servers, RATE, seconds)]


def _fill(node: NodeProcess, total_bytes: int) -> int:
    """Make the topic and write to its partition 0; returns how large that is, once all of it is on the disk."""
    create_topic(node)
    fill_partition(node.bootstrap_servers, TOPIC, os.urandom(VALUE_BYTES), total_bytes // VALUE_BYTES, BATCHES)
    os.sync()
    (place,) = places(node, TOPIC)
    return place.size


@contextmanager
def _moving(node: NodeProcess) -> Iterator[None]:
    """Move partition 0 to and fro for as long as the block takes, and let the last move end."""
    done = threading.Event()
    failures: list[Exception] = []

    def move_on() -> None:
        try:
            while not done.is_set():
                move_partition(node, TOPIC, poll_s=RARELY_S)
        except Exception as failure:  # noqa: BLE001  told by the thread that waits for this one
            failures.append(failure)

    mover = threading.Thread(target=move_on)
    mover.start()
    try:
        yield
    finally:
        done.set()
        mover.join()
    if failures:
        raise failures[0]


MOVE_EXPERIMENTS: dict[str, Experiment[MoveWork]] = {
    "move": move,
    "throttle": throttle,
    "latency": latency,
    "swap": swap,
}
