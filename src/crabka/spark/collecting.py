"""The rows of a frame on the driver: all of them, or an error.

`DataFrame.collect` takes the end of a broken connection for the end of the rows. If Spark's Java dies while it sends
them, what has come by then is returned as if it were everything, and a commit of offsets for it loses the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collect_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame. Raises what Spark raises, also if Java dies before the last of them."""
    # After the batches Java is asked how sending them went, and reports their order: a dead one does not answer.
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows
