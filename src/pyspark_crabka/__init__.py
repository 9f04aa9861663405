"""Registers the format `crabka` by itself: Spark imports modules with this prefix and takes their `DefaultSource`.

Must import nothing heavy: Spark does so in every application, whether it uses the format or not.
"""

from __future__ import annotations

from crabka.spark.source.data_source import CrabkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
