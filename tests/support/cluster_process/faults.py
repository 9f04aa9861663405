"""Random faults on a cluster of real processes, one at a time, and how long each made partitions unavailable."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.support.cluster_process.cluster import ClusterProcesses
    from tests.support.cluster_process.load import SequencedLoad
    from tests.support.cluster_process.nodes import ClusterNode


class FaultKind(Enum):
    """What happens to a node."""

    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    RESTART = "clean restart"
    PARTITION = "partition"


class OutageRecord(NamedTuple):
    """One fault and the longest silence of a partition around it."""

    kind: FaultKind
    node_id: int
    was_controller: bool
    seconds: float

    @property
    def title(self) -> str:
        """Kind and victim, as rows of the report group them."""
        return f"{self.kind.value} of {'the active controller' if self.was_controller else 'another node'}"


@dataclass(frozen=True, slots=True)
class FaultTimes:
    """How long a fault lasts before it is repaired."""

    pause_s: float = 10.0
    partition_s: float = 10.0
    most_down_s: float = 3.0


class FaultInjector:
    """Lets faults happen to a cluster under load; each is over and repaired before the next."""

    def __init__(
        self, cluster: ClusterProcesses, load: SequencedLoad, rng: random.Random, times: FaultTimes, topics: list[str]
    ) -> None:
        """Prepare; the topics are those whose replicas must be in sync before a fault."""
        self._cluster = cluster
        self._load = load
        self._rng = rng
        self._times = times
        self._topics = topics
        self.outages: list[OutageRecord] = []

    @property
    def kinds(self) -> list[FaultKind]:
        """The faults that this network allows."""
        return [kind for kind in FaultKind if kind is not FaultKind.PARTITION or self._cluster.network.can_partition]

    def run(self, count: int) -> None:
        """So many faults: every kind in turn, in random order, on random nodes."""
        kinds: list[FaultKind] = []
        for number in range(count):
            if not kinds:
                kinds = self.kinds
                self._rng.shuffle(kinds)
            self.inject(kinds.pop(), self._rng.choice(list(self._cluster.nodes.values())))
            print(f"fault {number + 1} of {count}: {self.outages[-1]}", flush=True)

    def inject(self, kind: FaultKind, node: ClusterNode) -> None:
        """One fault, from a whole cluster to a whole cluster."""
        self._wait_whole(time.monotonic())
        was_controller = self._cluster.active_controller() == node.node_id
        begin = time.monotonic()
        self._act(kind, node)
        repaired = time.monotonic()
        self._wait_whole(repaired)
        seconds = self._load.unavailable_s(begin, time.monotonic())
        self.outages.append(OutageRecord(kind, node.node_id, was_controller, seconds))

    def _act(self, kind: FaultKind, node: ClusterNode) -> None:
        """Let the fault happen, last, and be repaired."""
        match kind:
            case FaultKind.KILL:
                node.kill()
                time.sleep(self._rng.uniform(0, self._times.most_down_s))
                self._start_again(node)
            case FaultKind.PAUSE:
                node.pause()
                time.sleep(self._times.pause_s)
                node.resume()
            case FaultKind.RESTART:
                node.stop()
                self._start_again(node)
            case FaultKind.PARTITION:
                self._cluster.cut([node.node_id])
                time.sleep(self._times.partition_s)
                self._cluster.heal()

    def _start_again(self, node: ClusterNode) -> None:
        node.launch()
        self._cluster.wait_serving(node)

    def _wait_whole(self, since: float) -> None:
        """Every replica in sync, every broker known, every voter caught up, and every partition takes writes again."""
        cluster, load = self._cluster, self._load
        cluster.wait_registered()
        cluster.wait_in_sync(self._topics)
        cluster.wait_voters_caught_up()
        wait_until(lambda: load.heard_since(since), "every partition takes writes")


def report(title: str, outages: Sequence[OutageRecord]) -> str:
    """The unavailability by kind of fault as a Markdown table."""
    groups: dict[str, list[float]] = {}
    for outage in sorted(outages, key=lambda each: each.title):
        groups.setdefault(f"{outage.kind.value}, all", []).append(outage.seconds)
        groups.setdefault(outage.title, []).append(outage.seconds)
    lines = [f"# {title}", "", "| fault | count | median | worst |", "|---|---|---|---|"]
    for name, seconds in groups.items():
        lines.append(f"| {name} | {len(seconds)} | {statistics.median(seconds):.2f} s | {max(seconds):.2f} s |")
    return "\n".join([*lines, ""])
