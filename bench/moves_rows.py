"""What is measured on moves between log dirs and how good is good enough."""

from __future__ import annotations

from bench.rows import BenchRow, at_least, at_most, seen, shared

MOVE_ROWS = (
    BenchRow(
        "move_rate",
        "move of an idle partition",
        "MB/s",
        "move",
        higher_is_better=True,
        bar=1.0,
        stretch=2.0,
    ),
    seen("move_cpu", "broker CPU per GB of that move", "s", "move", higher_is_better=False),
    shared("cp_rate", "cp of the same files, then fsync", "MB/s", "move"),
    at_least("move_of_cp", "the move, of cp and fsync", "x", "move", 0.7),
    at_most("throttle_error", "how far a throttled move is from its setting", "%", "throttle", 10.0),
    seen("produce_p99", "p99 produce latency without a move", "ms", "latency", higher_is_better=False),
    seen(
        "produce_p99_move",
        "p99 produce latency beside a move at half of cp",
        "ms",
        "latency",
        higher_is_better=False,
    ),
    at_most("produce_slowdown", "p99 with the move, of that without", "x", "latency", 1.5),
    at_most("longest_wait", "longest wait of a producer to the partition that is swapped", "ms", "swap", 50.0),
)
