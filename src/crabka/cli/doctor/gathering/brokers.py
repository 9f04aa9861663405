"""Facts that brokers report of themselves: log dirs, versions, clocks, the quorum; and of their processes here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from crabka.cli.doctor.checks.clock import ClockFacts, ClockReading
from crabka.cli.doctor.checks.descriptors import ProcessFiles
from crabka.cli.doctor.checks.disks import DirFacts, DiskFacts
from crabka.cli.doctor.checks.quorum import QuorumFacts, VoterProbe
from crabka.cli.doctor.checks.versions import BrokerVersions, VersionFacts
from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering import machine
from crabka.cli.doctor.gathering.addresses import probe_address
from crabka.cli.doctor.gathering.overview import Overview, is_refusal
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import FeatureRange, LogDirDescription
from crabka.clients.admin.cluster_types import DescribedQuorum
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.fetcher.offsets import MAX_TIMESTAMP, OffsetAndTimestamp, list_offsets_once
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition

# Topics whose records have the time of the broker that leads the partition.
_STAMPED_TOPICS = ("__consumer_offsets", "__transaction_state")
_VOTER = re.compile(r"(?:(\d+)@)?(\[[^\]]*\]|[^:,@]+):(\d+)")
_LIST_OFFSETS_MS = 30_000


async def gather_disks(cluster: Cluster, overview: Overview) -> DiskFacts:
    """Return the log dirs of all brokers; those on this machine with their speed. Raises OperationError."""
    found = await asyncio.gather(*(_log_dirs(cluster, broker) for broker in overview.reachable))
    dirs = []
    silent = list(overview.unreachable)
    for broker, described in zip(overview.reachable, found, strict=True):
        if described is None:
            silent.append(broker)
            continue
        for each in described:
            sync_ms = await cluster.runtime.threads.submit(_syncs, each, overview.cluster_id, broker)
            dirs.append(
                DirFacts(
                    broker,
                    each.path,
                    each.is_online,
                    each.total_bytes,
                    each.usable_bytes,
                    len(each.replicas),
                    sync_ms,
                )
            )
    return DiskFacts(dirs, sorted(silent))


async def gather_descriptors(cluster: Cluster, overview: Overview) -> tuple[list[ProcessFiles], list[int]]:
    """Return the processes of brokers on this machine, and the brokers elsewhere."""
    found: list[ProcessFiles] = []
    elsewhere: list[int] = []
    paths = overview.broker_setting("log.dirs") or overview.broker_setting("log.dir")
    for broker in [each.node_id for each in overview.active]:
        dirs = [part.strip() for part in paths.get(broker, "").split(",") if part.strip()]
        seen = await cluster.runtime.threads.submit(_process, dirs, overview.cluster_id, broker)
        if seen is None:
            elsewhere.append(broker)
        else:
            found.append(seen)
    return found, elsewhere


async def gather_versions(cluster: Cluster, overview: Overview, bootstrap: str) -> VersionFacts:
    """Return the APIs and features of all brokers, from the answers that opened the connections."""
    brokers = []
    silent = list(overview.unreachable)
    for broker in overview.reachable:
        try:
            answer = (await cluster.connection(broker)).api_versions
        except CrabkaError:
            silent.append(broker)
            continue
        levels = {each.name: each.max_version_level for each in getattr(answer, "finalized_features", ())}
        brokers.append(
            BrokerVersions(
                broker,
                {int(each.api_key): (each.min_version, each.max_version) for each in answer.api_keys},
                {
                    each.name: FeatureRange(each.min_version, each.max_version, levels.get(each.name, -1))
                    for each in getattr(answer, "supported_features", ())
                },
            )
        )
    return VersionFacts(brokers, bootstrap, overview.is_crabka, sorted(silent))


async def gather_quorum(cluster: Cluster, overview: Overview, timeout_ms: int) -> QuorumFacts:
    """Return the quorum, or why it cannot be described and which of its voters can be reached from here.

    Raises OperationError if this user may not see it.
    """
    active = [each.node_id for each in overview.active]
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            described = await Admin(cluster, timeout_ms).cluster.describe_quorum()
    except (CrabkaError, TimeoutError) as error:
        if is_refusal(error):
            raise
        reason = " ".join(str(error).split()) or f"no answer in {timeout_ms} ms"
        probes = await asyncio.gather(*(_probe(cluster, *voter) for voter in _configured_voters(overview)))
        return QuorumFacts(None, reason, probes, active, overview.is_crabka)
    return QuorumFacts(described, "", (), active, overview.is_crabka)


async def gather_clock(cluster: Cluster, overview: Overview, timeout_ms: int) -> ClockFacts:
    """Return the time of the active controller, and the newest stamps of brokers.

    Raises NotApplicableError without an active controller, which is a finding about the quorum.
    """
    clock = cluster.runtime.clock
    asked_ms = clock.now_ms()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            quorum = await Admin(cluster, timeout_ms).cluster.describe_quorum()
    except (CrabkaError, TimeoutError) as error:
        who = "this user may not see the quorum" if is_refusal(error) else "no active controller answers"
        raise NotApplicableError(who) from error
    answered_ms = clock.now_ms()
    leader_ms = _leader_time(quorum)
    readings = [ClockReading(quorum.leader_id, leader_ms, asked_ms, answered_ms)] if leader_ms >= 0 else []
    stamped = await _stamps(cluster, overview)
    unread = [each for each in (node.node_id for node in overview.active) if each not in {r.node for r in readings}]
    return ClockFacts(readings, stamped, unread)


def _leader_time(quorum: DescribedQuorum) -> int:
    leader = quorum.leader
    # The leader is always up to date: it reports its own time.
    return -1 if leader is None else max(leader.last_caught_up_ms, leader.last_fetch_ms)


async def _stamps(cluster: Cluster, overview: Overview) -> list[ClockReading]:
    leaders = {
        TopicPartition(name, index): partition.leader
        for name in _STAMPED_TOPICS
        if name in overview.topics
        for index, partition in overview.topics[name].partitions.items()
        if partition.leader in overview.reachable
    }
    if not leaders:
        return []
    wanted = dict.fromkeys(leaders, MAX_TIMESTAMP)
    answers = await list_offsets_once(cluster, wanted, read_committed=False, timeout_ms=_LIST_OFFSETS_MS)
    now_ms = cluster.runtime.clock.now_ms()
    newest: dict[int, int] = {}
    for partition, answer in answers.items():
        if isinstance(answer, OffsetAndTimestamp) and answer.timestamp >= 0:
            broker = leaders[partition]
            newest[broker] = max(newest.get(broker, -1), answer.timestamp)
    # A record may be old, so that only a time in the future says something.
    return [ClockReading(broker, stamp, stamp, now_ms) for broker, stamp in sorted(newest.items())]


async def _log_dirs(cluster: Cluster, broker: int) -> Sequence[LogDirDescription] | None:
    try:
        return await Admin(cluster).log_dirs.describe(broker, include_failed=True)
    except CrabkaError as error:
        if is_refusal(error):
            raise
        return None


def _syncs(each: LogDirDescription, cluster_id: str, broker: int) -> tuple[float, ...]:
    if not each.is_online or not machine.is_dir_of(each.path, cluster_id, broker):
        return ()
    try:
        return machine.measure_syncs(each.path)
    except OSError:
        # This user may not write there; the broker may.
        return ()


def _process(dirs: Sequence[str], cluster_id: str, broker: int) -> ProcessFiles | None:
    for path in dirs:
        if machine.is_dir_of(path, cluster_id, broker) and (pid := machine.lock_holder(path)):
            files = machine.open_files(pid)
            if files is not None:
                return ProcessFiles(broker, pid, *files)
    return None


async def _probe(cluster: Cluster, name: str, host: str, port: int) -> VoterProbe:
    return VoterProbe(name, await probe_address(cluster, host, port))


def _configured_voters(overview: Overview) -> list[tuple[str, str, int]]:
    """Return name and address of the controllers in the settings of brokers."""
    found: dict[tuple[str, int], str] = {}
    for setting in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        for text in overview.broker_setting(setting).values():
            for voter, host, port in _VOTER.findall(text):
                address = (host.strip("[]"), int(port))
                found.setdefault(address, f"voter {voter}" if voter else f"{host}:{port}")
    return [(name, *address) for address, name in sorted(found.items())]
