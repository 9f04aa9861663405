"""What is measured and how good is good enough: the rows of the table, with their bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One line of the table; the bar applies to the ratio Crabka / Kafka, or to Crabka's own value if absolute."""

    key: str
    title: str
    unit: str
    experiment: str
    higher_is_better: bool
    bar: float | None
    stretch: float | None
    absolute: bool = False
    # False for a number of the machine, which both brokers share.
    is_compared: bool = True


def _rate(key: str, title: str, unit: str, experiment: str, *bars: float) -> BenchRow:
    bar, stretch = bars or (None, None)
    return BenchRow(key, title, unit, experiment, higher_is_better=True, bar=bar, stretch=stretch)


def _cost(key: str, title: str, unit: str, experiment: str, *bars: float | None) -> BenchRow:
    bar, stretch = bars
    return BenchRow(key, title, unit, experiment, higher_is_better=False, bar=bar, stretch=stretch)


def _memory(key: str, title: str, experiment: str, bar: float, stretch: float | None) -> BenchRow:
    return BenchRow(key, title, "MB", experiment, higher_is_better=False, bar=bar, stretch=stretch, absolute=True)


def seen(key: str, title: str, unit: str, experiment: str, *, higher_is_better: bool = True) -> BenchRow:
    """A number without a bar, which others are made of."""
    return BenchRow(key, title, unit, experiment, higher_is_better=higher_is_better, bar=None, stretch=None)


def shared(key: str, title: str, unit: str, experiment: str) -> BenchRow:
    """A number of the machine, without any broker."""
    return BenchRow(key, title, unit, experiment, higher_is_better=True, bar=None, stretch=None, is_compared=False)


def at_least(key: str, title: str, unit: str, experiment: str, bar: float) -> BenchRow:
    """A number of Crabka alone that has to reach its bar."""
    return BenchRow(key, title, unit, experiment, higher_is_better=True, bar=bar, stretch=None, absolute=True)


def at_most(key: str, title: str, unit: str, experiment: str, bar: float) -> BenchRow:
    """A number of Crabka alone that must not exceed its bar."""
    return BenchRow(key, title, unit, experiment, higher_is_better=False, bar=bar, stretch=None, absolute=True)


ROWS = (
    _rate("single_rate", "one-record produce requests", "req/s", "requests", 2.5, 4.0),
    _cost("single_cpu", "broker CPU per one-record request", "µs", "requests", 0.4, 0.2),
    _rate("batch_100", "batched produce, 100 B", "msg/s", "throughput", 1.0, 1.2),
    _rate("batch_1k", "batched produce, 1 KiB", "msg/s", "throughput", 1.0, 1.2),
    _cost("produce_cpu", "broker CPU per GB produced, 1 KiB", "s", "throughput", 0.6, 0.3),
    _cost("consume_cpu", "broker CPU per GB consumed, 1 KiB", "s", "throughput", 0.6, 0.3),
    _cost("latency_p99", "p99 produce latency at 5,000 msg/s, acks=all", "ms", "latency", 1.0, 0.5),
    _memory("rss_idle", "resident memory, idle", "throughput", 100, 60),
    _memory("rss_loaded", "resident memory, after the load", "throughput", 160, 100),
    _cost("start", "start on an empty dir until the first acknowledged record", "s", "start", 0.35, 0.2),
    _cost("recovery", "open a 1 GiB log of 16 KiB batches after kill -9", "s", "recovery", 1.0, None),
    _rate("java_perf", "kafka-producer-perf-test, 100 B", "msg/s", "java"),
    _rate("eos", "transactional produce-consume copy", "msg/s", "eos", 1.0, 1.5),
    _cost(
        "rebalance_classic_start", "100 members, classic: 1,000 partitions, until stable", "s", "rebalance", 1.0, None
    ),
    _cost("rebalance_classic_change", "100 members, classic: one replaced, until stable", "s", "rebalance", 1.0, None),
    _cost(
        "rebalance_consumer_start", "100 members, KIP-848: 1,000 partitions, until stable", "s", "rebalance", 1.0, None
    ),
    _cost("rebalance_consumer_change", "100 members, KIP-848: one replaced, until stable", "s", "rebalance", 1.0, None),
    _memory("rss_groups", "resident memory with 100,000 idle groups, after a restart", "groups", 400, None),
)
EXPERIMENTS = tuple(dict.fromkeys(row.experiment for row in ROWS))


def selected_experiments(only: list[str], rows: Sequence[BenchRow] = ROWS) -> list[str]:
    """The experiments that fill what was asked for: rows by key, experiments, or all whose name begins with a word.

    All of them if nothing was asked. Raises ValueError.
    """
    experiments = dict.fromkeys(row.experiment for row in rows)
    known: dict[str, set[str]] = {}
    for name in experiments:
        known.setdefault(name.partition("_")[0], set()).add(name)
    known |= {row.key: {row.experiment} for row in rows} | {name: {name} for name in experiments}
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise ValueError(f"no row or experiment named {', '.join(unknown)}; known: {', '.join(known)}")
    wanted = set().union(*(known[name] for name in only)) or set(experiments)
    return [name for name in experiments if name in wanted]
