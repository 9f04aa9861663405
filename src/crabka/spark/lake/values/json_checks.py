"""Checks of single JSON values without Arrow: whether they are nested too deeply, and why they do not fit.

Pure. Arrow's parser calls itself for every level, so a value of a few kilobytes can end the process, and the library
of Delta reads no schema of more than about forty levels. Arrow reports only that a
block is bad, and parsing single rows takes a millisecond each. No value is rejected here that Arrow would accept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MAX_LEVELS = 32
_SHOWN_CHARACTERS = 60

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
            return _reason(content[name], kind, name)
    return None


def explain(value: bytes | None, fields: Sequence[pa.Field]) -> str | None:
    """Return why a value that Arrow refused does not fit, also inside of lists and objects; None if it is not clear."""
    if value is None:
        return None
    found = _misfit(value, {field.name: field.type for field in fields})
    if found is not None:
        return found
    try:
        content = json.loads(value.decode(), strict=False, parse_int=_short_int)
    except ValueError:
        return None
    reasons = (_inner_misfit(content.get(field.name), field.type, field.name) for field in fields)
    return next(filter(None, reasons), None)


def _inner_misfit(content: Any, kind: pa.DataType, place: str) -> str | None:
    if content is None:
        return None
    if not _fits(content, kind):
        return _reason(content, kind, place)
    if pa.types.is_list(kind):
        members = ((member, kind.value_type, f"{place}[{at}]") for at, member in enumerate(content))
    elif pa.types.is_struct(kind):
        members = ((content.get(field.name), field.type, f"{place}.{field.name}") for field in kind)
    else:
        is_text = isinstance(content, str) and not (pa.types.is_string(kind) or pa.types.is_binary(kind))
        return f"the field {place}: {_shown(content)} cannot be read as {kind}" if is_text else None
    return next(filter(None, (_inner_misfit(*member) for member in members)), None)


def _reason(content: Any, kind: pa.DataType, place: str) -> str:
    """Return why a member does not fit its column."""
    if pa.types.is_integer(kind) and isinstance(content, int | float) and not isinstance(content, bool):
        beyond = _beyond(content, kind)
        if beyond is None and not float(content).is_integer():
            return f"the field {place}: {_shown(content)} is not a whole number"
        if beyond is not None:
            return f"the field {place}: {_shown(content)} is {beyond} than {kind} allows"
        return f"the field {place}: {_shown(content)} is not written as a whole number"
    return f"the field {place} is {_KINDS[type(content)]}, its column is {kind}"


def _beyond(number: float, kind: pa.DataType) -> str | None:
    """Return whether a number is larger or smaller than a column of integers can have."""
    is_signed = pa.types.is_signed_integer(kind)
    greatest = (1 << (kind.bit_width - is_signed)) - 1
    if number > greatest:
        return "larger"
    return "smaller" if number < (-greatest - 1 if is_signed else 0) else None


def _shown(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _short_int(digits: str) -> int:
    """Return a number; Python refuses to read very long ones, of which the beginning is too large for any column."""
    return int(digits[:100])


def _fits(content: Any, kind: pa.DataType) -> bool:
    """Return whether a column may take a member; what is inside lists and objects is left to Arrow."""
    if content is None:
        return True
    if pa.types.is_boolean(kind):
        return isinstance(content, bool)
    if pa.types.is_integer(kind):
        return isinstance(content, int) and not isinstance(content, bool) and _beyond(content, kind) is None
    if pa.types.is_floating(kind):
        return isinstance(content, int | float) and not isinstance(content, bool)
    if pa.types.is_list(kind):
        return isinstance(content, list)
    if pa.types.is_struct(kind):
        return isinstance(content, dict)
    return isinstance(content, str) if pa.types.is_string(kind) or pa.types.is_binary(kind) else True
