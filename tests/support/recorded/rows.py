"""Rows that Apache Kafka's own clients read from the golden data, in the form in which Spark shows them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.recorded.files import GOLDEN

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = {"CreateTime": 0, "LogAppendTime": 1}


def golden_rows(name: str, topic: str, *, committed: bool = False) -> list[tuple[Any, ...]]:
    """Return the rows of a topic of `single` or `overlap`, with headers, by partition and offset."""
    content = json.loads((GOLDEN / name / "expected.json").read_text())
    partitions = content["read_committed" if committed else "read_uncommitted"][topic]
    rows: list[tuple[Any, ...]] = []
    for partition in sorted(partitions, key=int):
        for offset, timestamp_ms, key, value, headers, kind, _epoch in partitions[partition]:
            # Spark hands timestamps to Python without a zone, in that of the session.
            timestamp = (_EPOCH + timedelta(milliseconds=timestamp_ms)).replace(tzinfo=None)
            shown = [(header, _bytes(text)) for header, text in headers] or None
            rows.append((_bytes(key), _bytes(value), topic, int(partition), offset, timestamp, _TYPES[kind], shown))
    return rows


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
