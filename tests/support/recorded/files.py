"""Where the bytes written by Apache Kafka 4.3.0 lie."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"
