"""What a DataFrame of a classic session asks of the source, out of Spark's own plan of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RELATION: Final = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


def reads_of_frame(frame: DataFrame) -> list[dict[str, str]]:
    """Return the options of every read in a frame, their names in lower case."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [_options(leaves.apply(index)) for index in range(leaves.size())]


def _options(leaf: Any) -> dict[str, str]:
    if leaf.getClass().getName() != _RELATION:
        return {}
    return {str(name).lower(): str(value) for name, value in leaf.options().asCaseSensitiveMap().items()}
