"""The checks of the logs in Prometheus form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from crabka.broker.healing.scrubber import LogScrubber

_NAME: Final = "crabka_log_scrub"


def collect_scrub(scrubber: LogScrubber) -> Iterator[Metric]:
    """Yield how far the checks are, what they found, and each range that is damaged now."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    stats, progress = scrubber.stats, scrubber.stats.progress
    yield CounterMetricFamily(f"{_NAME}_bytes", "Bytes checked", value=stats.bytes_checked)
    yield CounterMetricFamily(f"{_NAME}_segments", "Segments checked", value=stats.segments_checked)
    yield CounterMetricFamily(f"{_NAME}_passes", "Checks of all logs that ended", value=progress.passes)
    yield CounterMetricFamily(f"{_NAME}_damaged_ranges_found", "Damaged ranges found", value=stats.ranges_found)
    yield CounterMetricFamily(f"{_NAME}_repaired_ranges", "Damaged ranges repaired", value=stats.ranges_repaired)
    yield CounterMetricFamily(f"{_NAME}_repaired_files", "Files rebuilt from the batches", value=stats.files_repaired)
    yield CounterMetricFamily(f"{_NAME}_rebuilt_replicas", "Replicas fetched anew", value=stats.replicas_rebuilt)
    for name, text, value in (
        ("pass_logs", "Logs of the present or last pass", progress.pass_logs),
        ("pass_logs_done", "Logs of it that are checked", progress.pass_logs_done),
        ("pass_start_seconds", "When it began, -1 if never", progress.pass_started_ms / 1000),
        ("last_pass_seconds", "When the last full pass ended, -1 if never", progress.last_pass_ms / 1000),
    ):
        yield GaugeMetricFamily(f"{_NAME}_{name}", text, value=value)
    labels = ["topic", "partition", "first_offset", "last_offset", "file"]
    damaged = GaugeMetricFamily("crabka_log_damaged_offsets", "Offsets that cannot be read here", labels=labels)
    for log, each in scrubber.damaged():
        path = log.healing.segment_of(each.offset).log_path
        names = [log.topic, str(log.partition), str(each.offset), str(each.end_offset - 1), path]
        damaged.add_metric(names, each.end_offset - each.offset)
    yield damaged
