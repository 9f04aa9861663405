"""From splits to rows, in tasks: ranges of the tier with read-ahead, and raw fetches from brokers.

`split_reader` is the entry; it reads ranges by `tier_reader` or `broker_reader` and plans what vanished again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.read.split_reader import ReadSettings, read_split

__all__ = ["ReadSettings", "read_split"]

__getattr__ = lazy_exports(__name__, {"split_reader": ["ReadSettings", "read_split"]})
