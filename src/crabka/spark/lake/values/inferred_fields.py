"""Fields that were found in values as new columns of a table, and those that cannot become any.

Pure. Readers ignore the case of names, Iceberg joins the names of nested columns by dots, and libraries in C end
names at a NUL. A field whose name is equal to that of another column in this sense cannot be added. Rows with such a
field become dead letters, so that it is not lost silently; their other fields are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.lake.values.schemas import DATE_FIELD, LOG_COLUMNS, plain_type

_ITEMS = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that cannot become a column."""

    # The way to it from the value: indexes of members of structs, _ITEMS for what is in a list.
    steps: tuple[int, ...]
    reason: str

    def rows_in(self, values: pa.Array) -> list[int]:
        """Return which values have the field, of values of the type that was looked at."""
        rows: pa.Array | None = None
        for step in self.steps:
            if step == _ITEMS:
                parents = pc.list_parent_indices(values)
                rows = parents if rows is None else rows.take(parents)
                values = values.flatten()
            else:
                values = pc.struct_field(values, [step])
        found = pc.indices_nonzero(values.is_valid())
        places: list[int] = (found if rows is None else rows.take(found)).unique().to_pylist()
        return places


def grown(known: Sequence[pa.Field], found: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    """Return columns with what can be added to them of others."""
    inferred = InferredFields(known)
    inferred.look_at(pa.struct(found))
    return inferred.fields


class InferredFields:
    """Columns that grow by what is found; of names and types that exclude each other the first ones stay."""

    def __init__(self, known: Sequence[pa.Field]) -> None:
        self._known = list(known)
        # The same object as long as nothing is added.
        self.fields: tuple[pa.Field, ...] = tuple(known)
        columns = [*LOG_COLUMNS, DATE_FIELD]
        self._log_paths = {path.lower() for path in _paths(columns, "")}
        self._taken = {path.lower(): path for path in _paths([*columns, *known], "")}

    @property
    def new(self) -> list[pa.Field]:
        """The columns that were not known at first, or have more inside now."""
        types = {field.name: field.type for field in self._known}
        return [field for field in self.fields if field.name not in types or not field.type.equals(types[field.name])]

    def look_at(self, kind: pa.DataType) -> list[Refusal]:
        """Add what a struct has beyond the columns, and return what cannot be added."""
        refused: list[Refusal] = []
        fields = tuple(self._members(self.fields, kind, "", (), refused))
        if fields != self.fields:
            self.fields = fields
        return refused

    def _members(
        self, known: Iterable[pa.Field], found: pa.DataType, where: str, steps: tuple[int, ...], refused: list[Refusal]
    ) -> list[pa.Field]:
        members = {field.name: field for field in known}
        for index, field in enumerate(found):
            if _is_empty(field.type):
                continue
            path, place = where + field.name, (*steps, index)
            current = members.get(field.name)
            reason = self._objection(field.name, path) if current is None else None
            if reason is not None:
                refused.append(Refusal(place, reason))
                continue
            self._taken.setdefault(path.lower(), path)
            kind = self._type(None if current is None else current.type, field.type, path, place, refused)
            if kind is not None:
                members[field.name] = pa.field(field.name, kind)
            else:  # all that is in it was refused
                del self._taken[path.lower()]
        return list(members.values())

    def _type(
        self,
        known: pa.DataType | None,
        found: pa.DataType,
        path: str,
        steps: tuple[int, ...],
        refused: list[Refusal],
    ) -> pa.DataType | None:
        """Return the type of a column with what was found in it, None if nothing of a new one can be added."""
        if pa.types.is_struct(found) and (known is None or pa.types.is_struct(known)):
            members = self._members(known or (), found, f"{path}.", steps, refused)
            return pa.struct(members) if members else None
        if pa.types.is_list(found) and (known is None or pa.types.is_list(known)):
            item_path, known_item = f"{path}.element", None if known is None else known.value_type
            reason = self._objection("", item_path) if known is None else None
            if reason is not None:
                refused.append(Refusal(steps, reason))
                return None
            self._taken.setdefault(item_path.lower(), item_path)
            item = self._type(known_item, found.value_type, item_path, (*steps, _ITEMS), refused)
            if item is None:
                del self._taken[item_path.lower()]
                return None
            return pa.list_(item)
        return _inferred_scalar(found) if known is None else known

    def _objection(self, name: str, path: str) -> str | None:
        """Return why a field cannot be a new column."""
        if "\0" in name:
            return f"the name of the field {path!r} has a NUL"
        other = self._taken.get(path.lower())
        if other is None:
            return None
        if path.lower() in self._log_paths:
            return f"the field {path} has the name of a column of the log"
        return f"the field {path} has the name of the column {other}, but for case or dots"


def _is_empty(kind: pa.DataType) -> bool:
    """Return whether nothing was seen but nulls, empty lists and empty objects."""
    if pa.types.is_list(kind):
        return _is_empty(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_empty(field.type) for field in kind)
    return bool(pa.types.is_null(kind))


def _inferred_scalar(kind: pa.DataType) -> pa.DataType:
    """Return the type of a new column. Text that looks like a time stays text: the next value need not."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.string()
    return plain_type(kind)


def _paths(fields: Iterable[pa.Field], where: str) -> Iterator[str]:
    """Yield the names of columns and of all that is in them, as Iceberg joins them."""
    for field in fields:
        yield from _paths_of(where + field.name, field.type)


def _paths_of(path: str, kind: pa.DataType) -> Iterator[str]:
    yield path
    if pa.types.is_struct(kind):
        yield from _paths(kind, f"{path}.")
    elif pa.types.is_list(kind):
        yield from _paths_of(f"{path}.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield f"{path}.key"
        yield from _paths_of(f"{path}.value", kind.item_type)
