"""What a consumer finds at a quiet moment, and what the tier looks like when everything has settled."""

from __future__ import annotations

import asyncio

from crabka.broker.tiering.read.reader import RemoteFetch
from crabka.errors import OffsetInRemoteTierError, OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import RemoteStorageError
from crabka.remote.scrub.faults import Severity, TierFaultKind
from crabka.remote.scrub.lineage import PartitionBounds
from crabka.remote.scrub.scrub import scrub_partition
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.support.tier_sim.cluster import TierCluster
from tests.support.tier_sim.model import ViolationError, batches_in
from tests.support.tier_sim.node import TierNode
from tests.support.tiers.remote_reading import joined
from tests.support.tiers.scene import INTERVAL_MS

WAIT_MS = 20_000
# A slow tier does not answer in time; what it sends is there for one of the next fetches.
PATIENCE = 10


async def check_readable(cluster: TierCluster) -> None:
    """Read all of the leader's log as a consumer does; everything that is owed comes, and nothing else than written."""
    leader, model = cluster.leader, cluster.model
    assert leader is not None
    log = leader.log
    await _check_below_start(leader)
    offset, aborted = log.log_start_offset, set[tuple[int, int]]()
    empty_count = 0
    has_all, wanted = True, model.aborted_from(log, offset)
    while offset < log.high_watermark and leader.is_up:
        # Retention may move the log start while a read is on its way.
        history = {batch.key for batch in model.lineage(log)}
        try:
            content = await _fetch(cluster, leader, offset, aborted)
        except (RemoteStorageError, OperationError) as error:
            if offset < log.log_start_offset:
                # Retention was faster.
                offset = log.log_start_offset
                continue
            empty_count += 1
            if model.is_owed(offset) or (cluster.unclean_count == 0 and empty_count > PATIENCE):
                raise ViolationError(f"offset {offset} cannot be read: {error!r}") from error
            if cluster.unclean_count == 0:
                # A leader that did not know of its successor removed it by right; the log start has to follow.
                await asyncio.sleep(INTERVAL_MS / 1000)
                continue
            offset, has_all = offset + 1, False
            continue
        before = offset
        for batch in batches_in(content):
            if batch.last_offset < before:
                raise ViolationError(f"offset {batch.base_offset} comes for {before}")
            model.check_batch(batch, history)
            if batch.base_offset > offset:
                _check_skipped(cluster, offset, batch.base_offset)
            offset = batch.last_offset + 1
        empty_count = empty_count + 1 if offset == before else 0
        if empty_count > PATIENCE:
            raise ViolationError(
                f"nothing comes for offset {offset}, of {log.log_start_offset} to {log.log_end_offset}"
            )
    missing = {each for each in wanted - aborted if each[1] >= log.log_start_offset}
    if has_all and leader.is_up and missing:
        raise ViolationError(f"a consumer does not learn of aborted transactions: {missing}")


def _check_skipped(cluster: TierCluster, start: int, end: int) -> None:
    for offset in range(start, end):
        if cluster.model.is_owed(offset):
            raise ViolationError(f"offset {offset} is passed over")


async def _fetch(cluster: TierCluster, leader: TierNode, offset: int, aborted: set[tuple[int, int]]) -> bytes:
    log, partition = leader.log, leader.partition
    assert partition is not None
    max_bytes = cluster.rng.choice([1, 1000, 1 << 20])
    try:
        content = bytes(log.read(offset, max_bytes=max_bytes, upper_offset=log.high_watermark).read())
        aborted |= {each[:2] for each in log.reads.aborted_transactions(offset, log.high_watermark)}
        return content  # noqa: TRY300 - both may be in the tier by now
    except OffsetInRemoteTierError:
        wanted = RemoteFetch(
            partition,
            offset,
            max_bytes=max_bytes,
            upper_offset=log.high_watermark,
            min_one_batch=True,
            is_committed_only=True,
        )
        try:
            found = await leader.reads.fetch(wanted, WAIT_MS)
        except RuntimeError:
            # The node has died meanwhile, and its threads with it.
            if leader.is_up:
                raise
            return b""
        cluster.remote_read_count += 1
        aborted |= set(found.aborted or ())
        return bytes(joined(found.records))


async def _check_below_start(leader: TierNode) -> None:
    offset = leader.log.log_start_offset - 1
    if offset < 0:
        return
    try:
        leader.log.read(offset, max_bytes=1000)
    except OffsetInRemoteTierError as error:
        raise ViolationError(f"offset {offset} lies below the log start and is looked for in the tier") from error
    except OperationError as error:
        if error.error_code is ErrorCode.offset_out_of_range:
            return
        raise
    raise ViolationError(f"offset {offset} lies below the log start and is served")


def is_tidy(cluster: TierCluster) -> bool:
    """Return whether nothing is being copied or removed, and nothing waits for it."""
    leader = cluster.leader
    if leader is not None and leader.log.retention.copies_to_tier and leader.log.tiering.untiered().sealed_count:
        return False
    listed = [each for name in cluster.rlmm.partitions() for each in cluster.rlmm.list_remote_log_segments(name)]
    finished = {each.segment_id for each in listed if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED}
    return len(finished) == len(listed) and set(cluster.store.segment_ids()) == finished


def check_settled(cluster: TierCluster) -> None:
    """Nothing is stuck, nothing is left over, nothing is damaged."""
    known = set()
    for partition in cluster.rlmm.partitions():
        if partition != cluster.name:
            raise ViolationError(f"the deleted {partition} is still in the tier")
        listed = list(cluster.rlmm.list_remote_log_segments(partition))
        stuck = [each for each in listed if each.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
        if stuck:
            raise ViolationError(f"stuck: {stuck}")
        known |= {each.segment_id for each in listed}
        _scrub(cluster, listed)
    stored = set(cluster.store.segment_ids())
    if stored != known:
        raise ViolationError(f"orphans {stored - known}, lost {known - stored}")


def _scrub(cluster: TierCluster, listed: list[RemoteLogSegmentMetadata]) -> None:
    leader = cluster.leader
    assert leader is not None
    bounds = PartitionBounds(leader.log.log_start_offset, leader.log.local_log_start_offset)
    faults = scrub_partition(cluster.store, cluster.name, listed, bounds=bounds)
    for fault in faults:
        if fault.severity is not Severity.NOTE:
            if fault.kind is TierFaultKind.GAP and cluster.unclean_count:
                continue
            raise ViolationError(str(fault))
