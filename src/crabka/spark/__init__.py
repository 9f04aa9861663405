"""The data pipeline: the tier and the topics of a cluster as Spark tables.

Needs the `spark` extra; nothing outside this package does. Knows clients, the remote tier and the record format,
never the broker. Importing it imports none of the heavy libraries: its parts load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.jobs.export import export_snapshot
    from crabka.spark.options.source_options import SourceOptions
    from crabka.spark.session.shipping import ship, write_package_zip
    from crabka.spark.source.explanation import explain
    from crabka.spark.source.registration import register

__all__ = ["SourceOptions", "explain", "export_snapshot", "register", "ship", "write_package_zip"]

__getattr__ = lazy_exports(
    __name__,
    {
        "jobs.export": ["export_snapshot"],
        "options.source_options": ["SourceOptions"],
        "session.shipping": ["ship", "write_package_zip"],
        "source.explanation": ["explain"],
        "source.registration": ["register"],
    },
)
