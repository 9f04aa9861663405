"""The data pipeline: the tier and the topics of a cluster as Spark tables.

Needs the `spark` extra; nothing outside this package does. Knows clients, the remote tier and the record format,
never the broker. Importing it imports none of the heavy libraries: its parts load when they are first used.
"""

from __future__ import annotations

from crabka.lazy_exports import lazy_exports

__getattr__ = lazy_exports(__name__, {})
