"""The experiments: each starts a broker on an empty directory, warms it up, measures and fills some rows."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.brokers import PARTITIONS, cpu_seconds, create_topic, prepared, resident_megabytes, running, topic_id
from bench.copier import SINK, SOURCE
from bench.groups import commit_groups, wait_for_groups
from bench.loads import (
    consume_all,
    end_offsets,
    fill_log,
    produce_batched,
    produce_paced,
    produce_single,
    wait_first_acknowledged,
)
from bench.members import PROTOCOLS, Subscription, rebalance_times
from bench.stats import percentile
from bench.suite import Experiment, Watch
from tests.support.kafka.oracle import run_tool

LATENCY_RATE = 5_000
TRANSACTION_SIZE = 500
# Kafka's coordinator gathers members for 3 s before the first rebalance of a classic group, and computes assignments
# of the other groups at most once a second; those waits are no work.
NO_DELAY = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work each experiment does."""

    single_count: int = 150_000
    small_count: int = 1_500_000
    large_count: int = 600_000
    latency_seconds: float = 15.0
    recovery_bytes: int = 1 << 30
    java_count: int = 2_000_000
    copied_count: int = 50_000
    member_count: int = 100
    shared_partitions: int = 1_000
    group_count: int = 100_000


QUICK = Scale(8_000, 100_000, 40_000, 2.0, 32 << 20, 100_000, 5_000, 20, 100, 2_000)


def requests(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """One record per request."""
    with running(broker) as node:
        create_topic(node)
        produce_single(node.bootstrap_servers, scale.single_count // 2)
        with watch(node.pid):
            before = cpu_seconds(node)
            seconds = produce_single(node.bootstrap_servers, scale.single_count)
            used = cpu_seconds(node) - before
    yield "single_rate", scale.single_count / seconds
    yield "single_cpu", used / scale.single_count * 1e6


def throughput(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """Large batches in and out, and what they leave in memory."""
    with running(broker) as node:
        bootstrap = node.bootstrap_servers
        yield "rss_idle", resident_megabytes(node)
        create_topic(node)
        produce_batched(bootstrap, scale.small_count // 3, 100)
        consume_all(bootstrap, scale.small_count // 3, [0] * PARTITIONS)
        yield "batch_100", scale.small_count / produce_batched(bootstrap, scale.small_count, 100)
        produce_batched(bootstrap, scale.large_count // 4, 1024)
        starts = end_offsets(bootstrap)
        gigabytes = scale.large_count * 1024 / 1e9
        with watch(node.pid):
            before = cpu_seconds(node)
            yield "batch_1k", scale.large_count / produce_batched(bootstrap, scale.large_count, 1024)
            produced = cpu_seconds(node)
            consume_all(bootstrap, scale.large_count, starts)
            consumed = cpu_seconds(node)
        yield "produce_cpu", (produced - before) / gigabytes
        yield "consume_cpu", (consumed - produced) / gigabytes
        yield "rss_loaded", resident_megabytes(node)


def latency(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """A steady moderate load."""
    with running(broker) as node:
        create_topic(node)
        produce_paced(node.bootstrap_servers, LATENCY_RATE, scale.latency_seconds)
        with watch(node.pid):
            found = produce_paced(node.bootstrap_servers, LATENCY_RATE, scale.latency_seconds)
    yield "latency_p99", percentile(found, 99)


def start(broker: str, _scale: Scale, _watch: Watch) -> Iterator[tuple[str, float]]:
    """From the start of the process to the first acknowledged record; Kafka's dir is formatted before, ours is not."""
    with prepared(broker) as node:
        begin = time.perf_counter()
        node.launch()
        wait_first_acknowledged(node.bootstrap_servers, "first")
        yield "start", time.perf_counter() - begin


def recovery(broker: str, scale: Scale, _watch: Watch) -> Iterator[tuple[str, float]]:
    """From the start of the process after kill -9 to the next acknowledged record on the large log."""
    with running(broker) as node:
        create_topic(node, "large", 1)
        fill_log(node.bootstrap_servers, "large", scale.recovery_bytes)
        node.kill()
        begin = time.perf_counter()
        node.launch()
        wait_first_acknowledged(node.bootstrap_servers, "large")
        yield "recovery", time.perf_counter() - begin


def java(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """Kafka's own performance tool."""
    with running(broker) as node:
        create_topic(node)
        with watch(node.pid):
            load = ["--topic", "perf", "--num-records", str(scale.java_count), "--record-size", "100"]
            shown = run_tool(
                "org.apache.kafka.tools.ProducerPerformance",
                *load,
                *["--throughput", "-1", "--bootstrap-server", node.bootstrap_servers],
                *["--warmup-records", str(scale.java_count // 4)],
                timeout_s=300,
            )
    rates = re.findall(r"records sent, ([\d.]+) records/sec", shown.stdout)
    yield "java_perf", float(rates[-1])


def eos(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """Consume, produce and commit offsets in transactions, in a client process of its own."""
    with running(broker) as node:
        create_topic(node, SOURCE)
        create_topic(node, SINK)
        produce_batched(node.bootstrap_servers, scale.copied_count, 100, topic=SOURCE)
        command = [sys.executable, "-m", "bench.copier", node.bootstrap_servers]
        command += [str(scale.copied_count), str(TRANSACTION_SIZE)]
        with watch(node.pid):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    yield "eos", scale.copied_count / float(done.stdout)


def rebalance(broker: str, scale: Scale, watch: Watch) -> Iterator[tuple[str, float]]:
    """Many members of one group: all at once, and one that is replaced by another."""
    for protocol in PROTOCOLS:
        with running(broker, NO_DELAY) as node:
            create_topic(node, "shared", scale.shared_partitions)
            subscription = Subscription("bench", "shared", topic_id(node, "shared"), scale.shared_partitions)
            with watch(node.pid):
                times = rebalance_times(node.bootstrap_servers, protocol, subscription, scale.member_count)
        yield f"rebalance_{protocol}_start", times[0]
        yield f"rebalance_{protocol}_change", times[1]


def groups(broker: str, scale: Scale, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Groups without members, loaded by a node that was started again."""
    with running(broker) as node:
        create_topic(node, "known", 1)
        commit_groups(node.bootstrap_servers, "known", scale.group_count)
        node.stop()
        node.launch()
        wait_first_acknowledged(node.bootstrap_servers, "known")
        wait_for_groups(node.bootstrap_servers, "known", scale.group_count)
        yield "rss_groups", resident_megabytes(node)


EXPERIMENT_FUNCTIONS: dict[str, Experiment[Scale]] = {
    "requests": requests,
    "throughput": throughput,
    "latency": latency,
    "start": start,
    "recovery": recovery,
    "java": java,
    "eos": eos,
    "rebalance": rebalance,
    "groups": groups,
}
