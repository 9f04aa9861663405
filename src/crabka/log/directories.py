"""The file `meta.properties` of a log dir, read and written durably; its form is the metadata layer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.metadata.meta_properties import FILE_NAME, MetaProperties, parse_meta_properties, render_meta_properties
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ports import FileSystem


def read_meta_properties(fs: FileSystem, log_dir: str) -> MetaProperties | None:
    """Return the identity of a log dir, None if it was never formatted. Raises the errors of the parser."""
    path = f"{log_dir}/{FILE_NAME}"
    try:
        data = read_file(fs, path)
    except FileNotFoundError:
        return None
    return parse_meta_properties(data.decode("utf-8", "replace"), path)


def write_meta_properties(fs: FileSystem, log_dir: str, properties: MetaProperties) -> None:
    """Write the identity of a log dir durably."""
    write_atomic(fs, f"{log_dir}/{FILE_NAME}", render_meta_properties(properties).encode())
