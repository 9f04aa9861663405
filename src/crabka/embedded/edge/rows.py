"""Cuts a request into the rows that a fault selects and the others, and merges the responses to both parts.

So a fault of one topic leaves the other topics of the same request alone. Pure functions of messages.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.embedded.edge.error_responses import PARTITION_FIELDS, TOPIC_FIELDS
from crabka.embedded.edge.shapes import answer_rows, request_rows, rows_in
from crabka.protocol.schemas import message_class

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    # The name of a topic id; None if there is no such topic.
    TopicName = Callable[[UUID], str | None]


class Selection(NamedTuple):
    """Which rows are meant; None stands for all."""

    topic: str | None = None
    partition: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether no row is left out."""
        return self.topic is None and self.partition is None

    def includes(self, topic: str | None, partition: int | None) -> bool:
        """Return whether a row is meant."""
        return self.topic in (None, topic) and self.partition in (None, partition)


class Cut(NamedTuple):
    """A request in two parts, each a body of its own; None if it has no rows."""

    selected: Any
    rest: Any


def cut_request(api_key: int, version: int, body: Any, selection: Selection, topic_name: TopicName) -> Cut:
    """Cut a request body into the rows of a selection and the others."""
    if selection.is_all:
        return Cut(body, None)
    return _Cutter(selection, topic_name).cut(body, message_class(api_key, version, "response"), None)


def merge_responses(first: Any, second: Any) -> Any:
    """Return a response with the rows of both; everything else is from the first."""
    found = answer_rows(type(first))
    if found is None:
        return first
    name = found[0]
    rows = {_identity(row): row for row in getattr(first, name)}
    for row in getattr(second, name):
        key = _identity(row)
        rows[key] = merge_responses(rows[key], row) if key in rows else row
    return dataclasses.replace(first, **{name: tuple(rows.values())})


class _Cutter:
    def __init__(self, selection: Selection, topic_name: TopicName) -> None:
        self._selection = selection
        self._topic_name = topic_name

    def cut(self, part: Any, response_class: Any, topic: str | None) -> Cut:
        """Cut a body, or a row that has rows itself."""
        answers, rows = answer_rows(response_class), request_rows(type(part))
        if answers is None or rows is None:
            return Cut(None, part)
        cuts = [self._cut_row(row, answers[1], topic) for row in rows_in(part)]
        selected = tuple(each.selected for each in cuts if each.selected is not None)
        rest = tuple(each.rest for each in cuts if each.rest is not None)
        if not selected:
            return Cut(None, part)
        whole = dataclasses.replace(part, **{rows[0]: selected})
        return Cut(whole, dataclasses.replace(part, **{rows[0]: rest}) if rest else None)

    def _cut_row(self, row: Any, response_class: Any, topic: str | None) -> Cut:
        topic = self._topic_of(row) or topic
        if answer_rows(response_class) is not None and rows_in(row):
            if topic is not None and self._selection.topic not in (None, topic):
                return Cut(None, row)
            return self.cut(row, response_class, topic)
        if self._selection.includes(topic, _partition_of(row)):
            return Cut(row, None)
        return Cut(None, row)

    def _topic_of(self, row: Any) -> str | None:
        if isinstance(row, str):
            return row
        for name in TOPIC_FIELDS:
            if isinstance(value := getattr(row, name, None), str):
                return value
        topic_id = getattr(row, "topic_id", None)
        return None if topic_id is None else self._topic_name(topic_id)


def _partition_of(row: Any) -> int | None:
    if isinstance(row, int):
        return row
    for name in PARTITION_FIELDS:
        if isinstance(value := getattr(row, name, None), int):
            return value
    return None


def _identity(row: Any) -> tuple[Any, ...]:
    names = (*TOPIC_FIELDS, *PARTITION_FIELDS, "topic_id", "group_id", "transactional_id", "producer_id")
    return tuple(getattr(row, name, None) for name in names)
