"""What is measured on tiered storage and how good is good enough."""

from __future__ import annotations

from bench.rows import BenchRow, at_least, at_most, seen

TIER_ROWS = (
    seen("copy_s3_rate", "copy a segment to S3", "MB/s", "copy_s3"),
    seen("copy_s3_plain_rate", "upload its file to S3 by obstore alone", "MB/s", "copy_s3"),
    at_least("copy_s3", "copy to S3, of the plain upload", "x", "copy_s3", 0.8),
    at_most("copy_s3_memory", "memory that the copy to S3 adds", "MB", "copy_s3", 100),
    seen("copy_file_rate", "copy a segment to a directory, synced", "MB/s", "copy_file"),
    seen("copy_file_plain_rate", "copy its file by obstore alone, synced", "MB/s", "copy_file"),
    at_least("copy_file", "copy to a directory, of the plain copy", "x", "copy_file", 0.8),
    at_most("copy_file_memory", "memory that the copy to a directory adds", "MB", "copy_file", 100),
    seen("read_s3_rate", "consumer of a topic that only S3 has", "MB/s", "read_s3"),
    seen("read_s3_plain_rate", "ranged GETs of its segments, written to a socket", "MB/s", "read_s3"),
    at_least("read_s3", "consumer of S3, of the plain GETs", "x", "read_s3", 0.7),
    BenchRow(
        "read_local",
        "consumer of a topic that only a directory has",
        "MB/s",
        "read_local",
        higher_is_better=True,
        bar=1.5,
        stretch=None,
    ),
    BenchRow(
        "read_local_cpu",
        "broker CPU per GB consumed from a directory",
        "s",
        "read_local",
        higher_is_better=False,
        bar=0.4,
        stretch=None,
    ),
    seen("produce_p99", "p99 produce latency without a tier read", "ms", "latency", higher_is_better=False),
    seen("produce_p99_read", "p99 produce latency while a tier read runs", "ms", "latency", higher_is_better=False),
    at_most("produce_slowdown", "p99 with the read, of that without", "x", "latency", 1.3),
    at_least("replay", "replay of the metadata topic", "events/s", "metadata", 100_000),
    seen("replay_cpu", "reader's CPU per event of the replay", "µs", "metadata", higher_is_better=False),
    at_most("restart", "restart from snapshots of 100,000 segments", "s", "metadata", 2.0),
    at_most("lookup", "find the segment of an offset", "µs", "metadata", 5.0),
    seen("listing", "list 100,000 segments", "s", "metadata", higher_is_better=False),
    seen("segment_memory", "resident memory per segment", "B", "metadata", higher_is_better=False),
)
