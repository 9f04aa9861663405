"""Puts the reading side of tiered storage together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.tiering.limits import ByteRateQuota
from crabka.broker.tiering.read.chunk_cache import ChunkCache
from crabka.broker.tiering.read.healing.verified_parts import VerifiedParts
from crabka.broker.tiering.read.index_cache import IndexCacheLimits, RemoteIndexCache
from crabka.broker.tiering.read.index_files import IndexFiles
from crabka.broker.tiering.read.pool import ReaderPool
from crabka.broker.tiering.read.reader import RemoteReads
from crabka.broker.tiering.read.tools import ReadTools

if TYPE_CHECKING:
    from crabka.broker.tiering.tools import TierTools


def build_remote_reads(tools: TierTools) -> RemoteReads:
    """Make what reads from the tier; the caller awaits `open` and calls `close`.

    Fetched indexes are kept in the first log dir, as in Kafka.
    """
    config, runtime = tools.config(), tools.runtime
    clock = runtime.clock
    pool = ReaderPool(
        lambda size: runtime.new_pool(size, "remote-reader"),
        size=lambda: tools.config().remote_log_reader_threads,
        max_pending=config.remote_log_reader_max_pending_tasks,
    )
    quota = ByteRateQuota(
        lambda: tools.config().remote_log_manager_fetch_max_bytes_per_second,
        sample_count=config.remote_log_manager_fetch_quota_window_num,
        sample_ms=config.remote_log_manager_fetch_quota_window_size_seconds * 1000,
    )
    verified = VerifiedParts(clock, lambda: tools.config().crabka_remote_verified_ttl_ms)
    chunks = ChunkCache(
        tools.storage,
        pool,
        capacity_bytes=config.crabka_remote_chunk_cache_bytes,
        on_downloaded=lambda size: quota.record(size, clock.monotonic_ms()),
        on_dropped=verified.forget,
    )

    def limits() -> IndexCacheLimits:
        now = tools.config()
        return IndexCacheLimits(
            now.remote_log_index_file_cache_total_size_bytes, now.remote_log_index_file_cache_ttl_ms
        )

    indexes = RemoteIndexCache(IndexFiles(runtime.fs, config.log_dirs[0], tools.storage), pool, clock, limits)
    read_tools = ReadTools(
        tools.storage,
        tools.metadata,
        pool,
        chunks=chunks,
        indexes=indexes,
        clock=clock,
        stats=tools.stats,
        verified=verified,
    )
    return RemoteReads(read_tools, fetch_quota=quota)
