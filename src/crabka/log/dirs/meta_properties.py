"""The file `meta.properties` of a log dir, read and written durably, guarded by a copy (`vfs.guarded_file`).

Its form is in `formats.meta_properties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.formats.meta_properties import FILE_NAME, MetaProperties, decode_meta_properties, encode_meta_properties
from crabka.vfs import read_guarded, settle_guarded, write_guarded

if TYPE_CHECKING:
    from crabka.ports import FileSystem


def read_meta_properties(fs: FileSystem, log_dir: str) -> MetaProperties | None:
    """Return the identity of a log dir, None if it was never formatted. Raises the errors of the parser."""
    path = f"{log_dir}/{FILE_NAME}"
    try:
        return decode_meta_properties(read_guarded(fs, path).data, path)
    except FileNotFoundError:
        return None


def heal_meta_properties(fs: FileSystem, log_dir: str) -> tuple[MetaProperties | None, str]:
    """Read the identity of a log dir that this process has locked, and write anew what rotted of it or of its copy.

    Return it and what was wrong, empty if nothing. Raises the errors of the parser.
    """
    path = f"{log_dir}/{FILE_NAME}"
    try:
        content = read_guarded(fs, path)
    except FileNotFoundError:
        return None, ""
    properties = decode_meta_properties(content.data, path)
    return properties, settle_guarded(fs, path, content)


def write_meta_properties(fs: FileSystem, log_dir: str, properties: MetaProperties) -> None:
    """Write the identity of a log dir durably."""
    write_guarded(fs, f"{log_dir}/{FILE_NAME}", encode_meta_properties(properties))
