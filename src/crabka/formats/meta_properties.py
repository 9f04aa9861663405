"""`meta.properties`, the identity of a log directory (version 1): cluster id, node id and directory id.

The format is Java's properties; Kafka writes it with a comment and in no particular order.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import uuid_from_text, uuid_to_text

FILE_NAME = "meta.properties"
VERSION = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The cluster and the node of a directory. `directory_id` is None in files written before KIP-858."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None = None


def decode_meta_properties(data: bytes, where: str = FILE_NAME) -> MetaProperties:
    """Read the file. Raises CorruptDataError that names the missing or wrong key."""
    values = _parse_lines(data.decode("utf-8", "replace"))
    version = values.get("version")
    if version != str(VERSION):
        raise CorruptDataError(where, f"version is {version!r}, known is {VERSION}")
    for key in ("cluster.id", "node.id"):
        if key not in values:
            raise CorruptDataError(where, f"{key} is missing")
    directory_id = values.get("directory.id")
    try:
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=None if directory_id is None else uuid_from_text(directory_id),
        )
    except ValueError as error:
        raise CorruptDataError(where, str(error)) from error


def encode_meta_properties(properties: MetaProperties) -> bytes:
    """Return the content of the file."""
    lines = ["#", f"version={VERSION}", f"cluster.id={properties.cluster_id}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_to_text(properties.directory_id)}")
    return "".join(f"{line}\n" for line in lines).encode()


def _parse_lines(text: str) -> dict[str, str]:
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("#", "!")):
            key, _, value = line.partition("=")
            # Java escapes the colon of a value; base64url and numbers have nothing else to escape.
            values[key.strip()] = value.strip().replace("\\", "")
    return values
