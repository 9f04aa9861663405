"""From splits to rows: ranged reads of the tier with read-ahead, and raw fetches from brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.read.settings import ReadSettings
    from crabka.spark.read.split_reader import read_split

__all__ = ["ReadSettings", "read_split"]

__getattr__ = lazy_exports(__name__, {"settings": ["ReadSettings"], "split_reader": ["read_split"]})
