"""A cluster of real processes whose files are damaged: what it must still hold, and whether all of it is whole.

It has a transactional, a compacted and a tiered topic. After damage every acknowledged record is readable, the replicas
are equal on disk, all topics are there and no file of a log or of the metadata is damaged.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic

from crabka.errors import CrabkaError
from crabka.log.healing.offline_check import check_directory, log_directories
from crabka.quorum.log.survey import read_segment, segment_bases, survey_log
from crabka.quorum.snapshots.files import list_snapshots, read_snapshot
from crabka.vfs import OsFileSystem
from tests.support.cluster_process.cluster import ClusterProcesses
from tests.support.cluster_process.reading import read_committed
from tests.support.faults.rotting_files import (
    METADATA,
    Flip,
    files_by_kind,
    flip_byte,
    has_whole_twin,
    tier_files_by_kind,
)
from tests.support.faults.tier_kills import tier_settings
from tests.support.nodes.process import NodeError, wait_until

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.support.cluster_process.nodes import ClusterNode

LOGGER = logging.getLogger(__name__)
TRANSACTIONAL: Final = "rot"
COMPACTED: Final = "compacted"
TIERED: Final = "tiered"
TOPICS: Final = {TRANSACTIONAL: 2, COMPACTED: 1, TIERED: 1}
QUICK_CHECKS: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "crabka.log.scrub.interval.ms": "300",
    "crabka.log.scrub.max.bytes.per.second": "100000000",
    "crabka.log.scrub.max.cpu.percent": "50",
}
SMALL_METADATA: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "internal.metadata.log.segment.bytes": "8000",
    "metadata.max.retention.bytes": "60000",
}
_SMALL_SEGMENTS: Final = {
    "internal.segment.bytes": "16384",
    "index.interval.bytes": "512",
    "min.insync.replicas": "2",
    "file.delete.delay.ms": "0",
}


def rotting_settings(tier: Path) -> dict[str, str]:
    """Settings of a node that checks its logs all the time and has a directory as its tier."""
    # What a round has read is damaged in the next one.
    checks = {"crabka.remote.verified.ttl.ms": "1"}
    return {**QUICK_CHECKS, **SMALL_METADATA, **checks, **tier_settings(tier, replicas=3)}


class RottingCluster:
    """The content of a running cluster of three, and the damage done to it."""

    def __init__(self, cluster: ClusterProcesses, tier: Path) -> None:
        self.cluster = cluster
        self.tier = tier
        self.flips: Counter[str] = Counter()
        # By kind: how many were reported in the log of the node, and how many files were just replaced.
        self.reported: Counter[str] = Counter()
        self.replaced: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self._number = 0
        self._values: dict[str, list[list[bytes]]] = {topic: [[] for _ in range(TOPICS[topic])] for topic in TOPICS}
        self._latest: dict[bytes, bytes] = {}

    # -- content -------------------------------------------------------------------------------------------------

    def create_topics(self) -> None:
        """Create the three topics, with segments small enough for many files."""
        more = {
            TRANSACTIONAL: {},
            COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "2000"},
            TIERED: {"remote.storage.enable": "true", "local.retention.bytes": "40000"},
        }
        new = [NewTopic(topic, TOPICS[topic], 3, config={**_SMALL_SEGMENTS, **more[topic]}) for topic in TOPICS]
        for done in self.cluster.admin().create_topics(new).values():
            done.result(60)
        self.cluster.wait_in_sync(list(TOPICS))

    def produce(self, count: int) -> None:
        """Write so many transactions, every third of which aborts, and as many rounds of the other topics."""
        producer = Producer({**self._client(), "transactional.id": "rot"})
        producer.init_transactions(60)
        for number in range(self._number, self._number + count):
            partition, is_aborted = number % TOPICS[TRANSACTIONAL], number % 3 == 2
            producer.begin_transaction()
            values = [b"%d %d %d %s" % (is_aborted, number, step, b"x" * 200) for step in range(10)]
            for value in values:
                producer.produce(TRANSACTIONAL, value, partition=partition)
            if is_aborted:
                producer.flush(60)
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                self._values[TRANSACTIONAL][partition] += values
        plain = Producer({**self._client(), "enable.idempotence": True})
        for number in range(self._number, self._number + count):
            key = b"key %d" % (number % 50)
            self._latest[key] = b"value %d %s" % (number, b"y" * 300)
            plain.produce(COMPACTED, self._latest[key], key=key)
            values = [b"%d %d %s" % (number, step, b"z" * 200) for step in range(5)]
            for value in values:
                plain.produce(TIERED, value)
            self._values[TIERED][0] += values
            assert plain.flush(60) == 0
        self._number += count

    def _client(self) -> dict[str, object]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers, "linger.ms": 0, "log_level": 0}

    def check_content(self) -> None:
        """Read everything that was acknowledged."""
        admin, servers = self.cluster.admin(), self.cluster.bootstrap_servers
        for topic in (TRANSACTIONAL, TIERED):
            stored = read_committed(admin, servers, topic, TOPICS[topic])
            values = [[value for _, value in each] for each in stored]
            assert values == self._values[topic], f"{topic}: {_difference(values, self._values[topic])}"
        (stored_values,) = read_committed(admin, servers, COMPACTED, 1)
        present = {value for _, value in stored_values}
        assert not set(self._latest.values()) - present

    # -- damage --------------------------------------------------------------------------------------------------

    def flip(self, rng: random.Random, node: ClusterNode, count: int) -> list[Flip]:
        """Damage files of a node, the kinds that were hit least first."""
        flips: list[Flip] = []
        found = files_by_kind(node.data_dir)
        for _ in range(count):
            kinds = sorted(found, key=lambda kind: (self.flips[kind], rng.random()))
            files = [path for path in found.pop(kinds[0]) if has_whole_twin(path)]
            done = flip_byte(rng, kinds[0], files) if files else None
            if done is not None:
                self.flips[done.kind] += 1
                flips.append(done)
        return flips

    def flip_tier(self, rng: random.Random, count: int) -> list[Flip]:
        """Damage objects of the tier, no two of one segment, the kinds that were hit least first."""
        flips: dict[str, Flip] = {}
        for _ in range(count):
            found = tier_files_by_kind(self.tier)
            kind = min(found, key=lambda each: (self.flips[each], rng.random()))
            files = [path for path in found[kind] if path.stem not in flips]
            done = flip_byte(rng, kind, files) if files else None
            if done is not None:
                self.flips[kind] += 1
                flips[done.path.stem] = done
        return list(flips.values())

    def restore_tier(self, flips: list[Flip], said: str) -> None:
        """Count which flips of objects were reported, and put the objects back, since they are not written again.

        A byte stays as it is that no reader wanted, because the records are in local logs or the index in a cache.
        """
        for flip in flips:
            assert flip.is_left, f"{flip}: an object of the tier has changed"
            if any(flip.path.name in line for line in said.splitlines()):
                self.reported[flip.kind] += 1
            else:
                self.left[flip.kind] += 1
            flip.undo()

    def note_outcome(self, node: ClusterNode, flips: list[Flip], said: str) -> None:
        """Count what became of flips; `said` is what the node has logged since."""
        for flip in flips:
            name = str(flip.path.name if flip.path.parent == node.data_dir else flip.path.parent / flip.path.stem)
            mentions = [line for line in said.splitlines() if name in line or str(flip.path.parent.name) in line]
            if any(" WARNING " in f" {line} " or " ERROR " in f" {line} " for line in mentions):
                self.reported[flip.kind] += 1
            elif flip.is_left:
                self.left[flip.kind] += 1
                LOGGER.info("left: %s", flip)
            else:
                self.replaced[flip.kind] += 1

    # -- wholeness -----------------------------------------------------------------------------------------------

    def wait_whole(self, flips: list[Flip]) -> None:
        """Wait until replicas are equal and no file is damaged."""
        try:
            self.cluster.wait_in_sync([*TOPICS])
            wait_until(lambda: not self.faults(), "all replicas are whole", timeout_s=90, poll_s=0.2)
        except NodeError as error:
            done = "\n".join(map(str, flips))
            said = "\n".join(node.stderr_text()[-3000:] for node in self.cluster.brokers)
            raise NodeError(f"{error}:\n{done}\n{self.faults()}\n{said}") from None
        assert all(each.is_alive() for each in self.cluster.nodes.values())

    def faults(self) -> list[str]:
        """Return what is wrong with the files of all nodes."""
        try:
            logs = [fault for node in self.cluster.brokers for fault in log_faults(node)]
            return [*logs, *self._unequal(), *metadata_faults(self.cluster)]
        except FileNotFoundError as error:
            # A file that was written anew a moment ago.
            return [f"{error.filename} went away"]

    def _unequal(self) -> list[str]:
        found = []
        for topic, count in TOPICS.items():
            for partition in range(count if topic != COMPACTED else 0):
                paths = [node.data_dir / f"{topic}-{partition}" for node in self.cluster.brokers]
                contents = [{each.name: each.read_bytes() for each in path.glob("*.log")} for path in paths]
                common = set.intersection(*(set(each) for each in contents))
                if topic == TRANSACTIONAL:
                    common = set().union(*contents)
                differing = [name for name in sorted(common) if len({each.get(name) for each in contents}) > 1]
                found += [f"{topic}-{partition}/{name} differs" for name in differing]
        return found


def _difference(found: list[list[bytes]], expected: list[list[bytes]]) -> str:
    """Say in a few words where two lists of values differ."""
    for partition, (one, other) in enumerate(zip(found, expected, strict=True)):
        for index, (value, wanted) in enumerate(zip(one, other, strict=False)):
            if value != wanted:
                return f"partition {partition}, record {index}: {value[:30]!r} instead of {wanted[:30]!r}"
        if len(one) != len(other):
            return f"partition {partition} has {len(one)} of {len(other)} records"
    return ""


def log_faults(node: ClusterNode) -> list[str]:
    """Return what is wrong with the partition logs of a node."""
    fs, base = OsFileSystem(), str(node.data_dir)
    names = [name for name in log_directories(fs, base) if name != METADATA]
    problems = (each for name in names for each in check_directory(fs, f"{base}/{name}"))
    return [f"node {node.node_id}: {each.file}: {each.reason}" for each in problems if not each.is_at_end]


def metadata_faults(cluster: ClusterProcesses) -> list[str]:
    """Return what is wrong with the metadata of all nodes: damaged files, and batches that differ."""
    fs, found = OsFileSystem(), []
    batches: dict[int, bytes] = {}
    for node in cluster.nodes.values():
        directory = str(node.data_dir / METADATA)
        snapshots = list_snapshots(fs, directory)
        for snapshot in snapshots:
            try:
                read_snapshot(fs, f"{directory}/{snapshot.file_name}", snapshot.epoch)
            except CrabkaError as error:
                found.append(f"node {node.node_id}: {error}")
        survey = survey_log(fs, directory, snapshots[-1].end_offset if snapshots else 0)
        # The batch at the very end may be on its way to the disk.
        if survey.damage is not None and not _is_at_end(fs, directory, survey.damage.path, survey.damage.position):
            found.append(f"node {node.node_id}: {survey.damage}")
        for base, size in survey.segments:
            for batch in read_segment(fs, f"{directory}/{base:020d}.log", size):
                known = batches.setdefault(batch.header.base_offset, batch.data)
                if known != batch.data:
                    found.append(f"node {node.node_id}: another batch of metadata at {batch.header.base_offset}")
    return found


def _is_at_end(fs: OsFileSystem, directory: str, path: str, position: int) -> bool:
    last = f"{directory}/{segment_bases(fs, directory)[-1]:020d}.log"
    return path == last and fs.stat(path).size_bytes - position < 200


def wait_topics(cluster: ClusterProcesses, names: set[str]) -> None:
    """Wait until every broker knows all topics."""

    def known(server: str) -> bool:
        with contextlib.suppress(KafkaException):
            return names <= set(cluster.admin(server).list_topics(timeout=5).topics)
        return False

    wait_until(lambda: all(map(known, cluster.server_list)), f"all know {sorted(names)}", timeout_s=60)
