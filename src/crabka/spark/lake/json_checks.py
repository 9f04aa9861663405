"""What can be said of single JSON values without Arrow: whether they are nested too deeply, and why they do not fit.

Pure. Arrow's parser calls itself for every level, so a value of a few kilobytes can end the process, and the library
of Delta reads no schema of more than about forty levels. Arrow also says of a block only that it is bad, and to ask it
about single rows takes a millisecond each; what is said here is never said of a value that Arrow would take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MAX_LEVELS = 32

# A string without an end goes on to the end of the value.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def too_deep(values: pa.Array) -> list[tuple[int, str]]:
    """Return the index and the reason of values that must not be parsed."""
    openings = pc.add(pc.count_substring(values, "["), pc.count_substring(values, "{"))
    suspects = pc.indices_nonzero(pc.greater(openings, MAX_LEVELS)).to_pylist()
    return [
        (index, f"nested deeper than {MAX_LEVELS} levels")
        for index in suspects
        if _levels(values[index].as_py()) > MAX_LEVELS
    ]


def _levels(value: bytes) -> int:
    level = deepest = 0
    for bracket in _STRING.sub(b"", value).translate(None, _NOT_BRACKETS):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


def misfits(values: pa.Array, fields: Sequence[pa.Field]) -> list[tuple[int, str]]:
    """Return the index and the reason of values that are no JSON objects, or have fields of another kind than these."""
    types = {field.name: field.type for field in fields}
    found = []
    for index, value in enumerate(values.to_pylist()):
        reason = None if value is None else _misfit(value, types)
        if reason is not None:
            found.append((index, reason))
    return found


def _misfit(value: bytes, types: Mapping[str, pa.DataType]) -> str | None:
    try:
        content = json.loads(value.decode(), strict=False, parse_int=_short_int)
    except UnicodeDecodeError:
        return "not UTF-8"
    except ValueError as error:
        # Arrow knows this name for infinity, Python does not.
        return None if b"Inf" in value else f"no JSON: {error}"
    if not isinstance(content, dict):
        return "null is no JSON object" if content is None else f"{_KINDS[type(content)]} is no JSON object"
    for name, kind in types.items():
        if not _fits(content.get(name), kind):
            return f"the field {name} is {_KINDS[type(content[name])]}, its column is {kind}"
    return None


def _short_int(digits: str) -> int | float:
    """Return a number; Python refuses to read very long ones, which no column of integers has."""
    return int(digits) if len(digits) < 100 else float(digits)


def _fits(content: Any, kind: pa.DataType) -> bool:
    """Return whether a column may take a member; what is inside lists and objects is left to Arrow."""
    if content is None:
        return True
    if pa.types.is_boolean(kind):
        return isinstance(content, bool)
    if pa.types.is_integer(kind):
        return isinstance(content, int) and not isinstance(content, bool) and -(1 << 63) <= content < 1 << 63
    if pa.types.is_floating(kind):
        return isinstance(content, int | float) and not isinstance(content, bool)
    if pa.types.is_list(kind):
        return isinstance(content, list)
    if pa.types.is_struct(kind):
        return isinstance(content, dict)
    return isinstance(content, str) if pa.types.is_string(kind) or pa.types.is_binary(kind) else True
