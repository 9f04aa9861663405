"""Read the text that kafka-dump-log printed of metadata logs and snapshots."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from crabka.ids import uuid_to_text

_RECORD = re.compile(r"^\| offset: (\d+) .*? payload: (\{.*\})$")
_CONTROL = re.compile(r"^\| offset: (\d+) .*? headerKeys: \[\] (\w+):? (\{.*\})$")


class DumpedRecord(NamedTuple):
    """One printed record: its Kafka type name, or the name of a control record with version -1."""

    offset: int
    kind: str
    version: int
    data: dict[str, Any]


def read_dump(path: Path) -> list[DumpedRecord]:
    """Return all records of a dump, in order."""
    records = []
    for line in path.read_text().splitlines():
        if match := _RECORD.match(line):
            payload = json.loads(match[2])
            records.append(DumpedRecord(int(match[1]), payload["type"], payload["version"], payload["data"]))
        elif match := _CONTROL.match(line):
            records.append(DumpedRecord(int(match[1]), match[2], -1, json.loads(match[3])))
    return records


def as_dumped(entity: Any) -> dict[str, Any]:
    """Return an entity as kafka-dump-log prints it: camel case, tagged defaults left out."""
    result = {}
    for spec in fields(entity):
        value = getattr(entity, spec.name)
        if "tag" in spec.metadata and value == spec.default:
            continue
        head, *rest = spec.name.split("_")
        result[head + "".join(part.capitalize() for part in rest)] = _plain(value)
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    if is_dataclass(value):
        return as_dumped(value)
    return value
