"""Frames recorded from real clients and Apache Kafka 4.3.0."""

from __future__ import annotations

import functools
import json
from typing import NamedTuple

from tests.support.recorded.files import GOLDEN


class RecordedFrame(NamedTuple):
    """One frame without its length."""

    source: str
    is_request: bool
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    header_version: int
    payload: bytes


@functools.cache
def recorded_frames() -> tuple[RecordedFrame, ...]:
    """Return all recorded frames."""
    frames = []
    for path in sorted((GOLDEN / "wire").glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            frames.append(
                RecordedFrame(
                    f"{path.name}:{number} {row['api']} v{row['api_version']} {row['dir']}",
                    row["dir"] == "request",
                    row["api_key"],
                    row["api_version"],
                    row["correlation_id"],
                    row.get("client_id"),
                    row["header_version"],
                    bytes.fromhex(row["hex"]),
                )
            )
    return tuple(frames)
