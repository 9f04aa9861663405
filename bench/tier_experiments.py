"""The experiments on tiered storage: each starts what it needs on empty directories and fills some rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.brokers import cpu_seconds, create_topic, running
from bench.suite import Experiment, Watch
from bench.tier_copies import plain_s3_store
from bench.tier_latency import Phases, draw_phases, measure_phases
from bench.tier_nodes import VALUE_BYTES, fill_tier, gateway, running_on_directory, running_on_s3
from bench.tier_reads import consume_tiered, get_all
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings


@dataclass(frozen=True, slots=True)
class TierWork:
    """How much work each experiment does."""

    copied_bytes: int = 1 << 30
    read_bytes: int = 2 << 30
    segment_bytes: int = 128 << 20
    phase_bytes: int = 1 << 30
    phase_seconds: float = 8.0
    phase_rounds: int = 2
    reader_megabytes_per_second: float = 50.0
    segment_count: int = 100_000


QUICK_TIER = TierWork(
    copied_bytes=256 << 20,
    read_bytes=192 << 20,
    segment_bytes=32 << 20,
    phase_bytes=192 << 20,
    phase_seconds=3.0,
    phase_rounds=1,
)
PHASES: dict[str, Phases] = {}
"""What the last runs of the latency experiment found, by broker: more than medians, for the plot."""


def copy_s3(broker: str, work: TierWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Copy to a bucket, and upload the same file without us."""
    if broker == "crabka":
        with gateway() as server:
            yield from _copies("s3", server.storage_settings(), work)


def copy_file(broker: str, work: TierWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """Copy to a directory, and copy the same file without us."""
    if broker == "crabka":
        with TemporaryDirectory(prefix="bench-tier-") as directory:
            yield from _copies("file", {"dir": directory}, work)


def _copies(kind: str, settings: dict[str, str], work: TierWork) -> Iterator[tuple[str, float]]:
    with TemporaryDirectory(prefix="bench-copies-") as directory:
        found = _run("bench.tier_copies", kind, json.dumps(settings), str(work.copied_bytes), directory)
    yield f"copy_{kind}_rate", found["rate"]
    yield f"copy_{kind}_plain_rate", found["plain_rate"]
    yield f"copy_{kind}", found["of_plain"]
    yield f"copy_{kind}_memory", found["memory"]


def read_s3(broker: str, work: TierWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """Consume a topic that only a bucket has; the node has just started, so that nothing of it is in its memory."""
    if broker != "crabka":
        return
    with gateway() as server, running_on_s3(server) as node:
        count = fill_tier(node, work.read_bytes, work.segment_bytes)
        node.restart()
        store = plain_s3_store(server.storage_settings())
        stored = sorted(server.keys())
        logs = [key for key in stored if key.endswith(".log")]
        before = get_all(store, logs)
        with watch(node.pid):
            rate = consume_tiered(node.bootstrap_servers, count) / 1e6
        # Before and after, so that a drift of the machine hits both.
        after = get_all(store, logs)
    plain_rate = (before[0] + after[0]) / (before[1] + after[1]) / 1e6
    yield "read_s3_rate", rate
    yield "read_s3_plain_rate", plain_rate
    yield "read_s3", rate / plain_rate


def read_local(broker: str, work: TierWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """Consume a topic that only a directory has, for the second time."""
    with running_on_directory(broker) as node:
        count = fill_tier(node, work.read_bytes, work.segment_bytes)
        consume_tiered(node.bootstrap_servers, count)
        with watch(node.pid):
            before = cpu_seconds(node)
            rate = consume_tiered(node.bootstrap_servers, count)
            used = cpu_seconds(node) - before
    yield "read_local", rate / 1e6
    yield "read_local_cpu", used / (count * VALUE_BYTES / 1e9)


def latency(broker: str, work: TierWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """A steady load on a topic that is not tiered, while a consumer reads one that is."""
    pace = work.reader_megabytes_per_second
    with running_on_directory(broker) as node:
        create_topic(node)
        count = fill_tier(node, work.phase_bytes, work.segment_bytes)
        measure_phases(node.bootstrap_servers, count, pace, work.phase_seconds / 2, 1)
        with watch(node.pid):
            found = measure_phases(node.bootstrap_servers, count, pace, work.phase_seconds, work.phase_rounds)
    PHASES[broker] = found
    alone, beside = found.p99(is_reading=False), found.p99(is_reading=True)
    yield "produce_p99", alone
    yield "produce_p99_read", beside
    yield "produce_slowdown", beside / alone


def draw_latency(path: Path) -> bool:
    """Plot the last run of each broker; returns False if there was none."""
    if PHASES:
        draw_phases(PHASES, path)
    return bool(PHASES)


def metadata(broker: str, work: TierWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """A manager that reads a long metadata topic, and one that begins with the snapshots of the first."""
    if broker != "crabka":
        return
    with running("crabka") as node, TemporaryDirectory(prefix="bench-metadata-") as directory:
        # Made here, since one that brokers make syncs every event, which is of no interest to who reads it.
        create_topic(node, METADATA_TOPIC, RemoteTopicSettings().num_partitions)
        for step in ("publish", "replay", "restart"):
            found = _run("bench.tier_metadata", step, node.bootstrap_servers, directory, str(work.segment_count))
            yield from found.items()


def _run(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a process of its own and return the JSON that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1800, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


TIER_EXPERIMENTS: dict[str, Experiment[TierWork]] = {
    "copy_s3": copy_s3,
    "copy_file": copy_file,
    "read_s3": read_s3,
    "read_local": read_local,
    "latency": latency,
    "metadata": metadata,
}
