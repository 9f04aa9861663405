"""Exports the metadata of a tier to a file, for reads without brokers (`tier.metadata=snapshot`)."""

from __future__ import annotations

from collections.abc import Mapping

from crabka.errors import ConfigError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.snapshot_catalog import write_snapshot_file
from crabka.spark.plan.context import open_context
from crabka.spark.plan.survey import chosen_catalog


def export_snapshot(options: Mapping[str, str], place: str) -> int:
    """Write what is known of the tier of the topics that the options choose; return the number of segments.

    The options are those of a batch read; the metadata comes from where they say. Raises ConfigError, also if
    it is not known where the tier is, OSError and what brokers and stores raise.
    """
    with open_context(SourceOptions.parse(options, streaming=False)) as context:
        if context.objects is None:
            raise ConfigError(_without_tier(context.options))
        catalog = chosen_catalog(context)
    write_snapshot_file(place, catalog)
    return sum(len(segments) for segments in catalog.segments.values())


def _without_tier(options: SourceOptions) -> str:
    if options.read_mode == "broker":
        return "with read.mode=broker there is no tier to export"
    return "there is nothing to export: this cluster does not say where its tier is; name the place by tier.uri"
