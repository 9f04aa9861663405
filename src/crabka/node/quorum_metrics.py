"""The metadata log of a node in Prometheus form: what opening it cut, what its checks found, and whether it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from crabka.quorum.raft.quorum import RaftQuorum


def collect_quorum(quorum: RaftQuorum) -> Iterator[Metric]:
    """Yield the metrics of the metadata log."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    count, size_bytes = quorum.log_cuts
    name = "crabka_metadata_log"
    yield CounterMetricFamily(f"{name}_cuts", "Times that opening cut the metadata log", value=count)
    yield CounterMetricFamily(f"{name}_cut_bytes", "Bytes that opening cut off the metadata log", value=size_bytes)
    repairs = quorum.election_file_repairs
    text = "Times that quorum-state or its copy was damaged and written anew"
    yield CounterMetricFamily("crabka_quorum_state_repairs", text, value=repairs)
    stats = quorum.scrub_stats
    for key, help_text, value in (
        ("set_aside_snapshots", "Damaged snapshots that the start of the node set aside", quorum.set_aside_count),
        ("scrub_bytes", "Bytes of the metadata log and its snapshots that were checked", stats.bytes_checked),
        ("scrub_passes", "Checks of all metadata files that ended", stats.passes),
        ("damage_found", "Damaged metadata files and ranges found while running", stats.found),
        ("damage_repaired", "Damaged metadata files and ranges healed while running", stats.repaired),
    ):
        yield CounterMetricFamily(f"{name}_{key}", help_text, value=value)
    lost = quorum.core.lost_end is not None
    text = "1 while durable metadata is lost here and the node has no vote"
    yield GaugeMetricFamily(f"{name}_waits_for_lost_entries", text, value=int(lost))
