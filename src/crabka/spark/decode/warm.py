"""Loads compiled code ahead of its first use."""

from __future__ import annotations

import importlib


def warm_up() -> None:
    """Compile the kernels, or load them from the disk; later calls cost nothing.

    Call it in a thread while the first bytes are on their way. Any number of processes may do so at once.
    """
    importlib.import_module("crabka.spark.decode.decoder")
