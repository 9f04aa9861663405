"""The mapping of names to columns of an Iceberg table: Crabka's files have no ids, so readers need it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.table.name_mapping import MappedField

DEFAULT_NAME_MAPPING = "schema.name-mapping.default"


def map_names(transaction: Transaction) -> None:
    """Map the names of all columns to their ids, in a transaction that is still open.

    pyiceberg makes the mapping with the first files, of the columns that it knows by then, and afterwards adds to it
    what a change of the schema adds. What another writer added in between would be missing for ever.
    """
    metadata = transaction.table_metadata
    mapping = metadata.name_mapping()
    mapped = _mapped_ids(mapping.root) if mapping is not None else set()
    if not metadata.schema().field_ids <= mapped:
        transaction.set_properties({DEFAULT_NAME_MAPPING: metadata.schema().name_mapping.model_dump_json()})


def _mapped_ids(fields: Iterable[MappedField]) -> set[int]:
    ids: set[int] = set()
    for field in fields:
        ids |= _mapped_ids(field.fields) | ({field.field_id} if field.field_id is not None else set())
    return ids
