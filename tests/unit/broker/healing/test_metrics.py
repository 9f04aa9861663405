"""Checks of logs as metrics."""

from __future__ import annotations

from types import SimpleNamespace

from crabka.broker.healing.metrics import collect_scrub
from crabka.broker.healing.scrubber import ScrubStats
from tests.support.faults.rotting import check_and_repair, flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import make_context, open_test_log


def test_progress_and_each_damaged_range_are_reported() -> None:
    context = make_context()
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log)
    flip(context.fs, log.healing.segment_of(0).log_path, 70)
    check_and_repair(log, 0)
    stats = ScrubStats(bytes_checked=12)
    stats.progress.last_pass_ms = 5000
    scrubber = SimpleNamespace(stats=stats, damaged=lambda: [(log, each) for each in log.healing.damage])
    samples = {
        sample.name: sample
        for metric in collect_scrub(scrubber)  # type: ignore[arg-type]
        for sample in metric.samples
    }
    assert samples["crabka_log_scrub_bytes_total"].value == 12
    assert samples["crabka_log_scrub_last_pass_seconds"].value == 5
    damaged = samples["crabka_log_damaged_offsets"]
    assert damaged.labels["file"] == log.healing.segment_of(0).log_path
    assert damaged.value == len(list(log.healing.damage)) * 3
