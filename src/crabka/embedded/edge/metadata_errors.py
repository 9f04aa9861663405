"""Errors in Metadata responses: the broker's own answer, in which topics have an error.

A response without brokers would leave a client without anyone to retry with.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.embedded.edge.rows import Selection


def is_metadata_of(body: Any, selection: Selection) -> bool:
    """Return whether a request asks for topics of a selection. A request for all topics does."""
    if body.topics is None:
        return True
    return any(selection.topic in (None, topic.name) for topic in body.topics)


def failed_metadata(response: Any, code: ErrorCode, selection: Selection) -> Any:
    """Return the response with an error for the topics of a selection, or for one of their partitions."""
    if code is ErrorCode.rebootstrap_required and "error_code" in response.__dataclass_fields__:
        return dataclasses.replace(response, error_code=code)
    topics = (
        _failed_topic(topic, code, selection.partition) if selection.topic in (None, topic.name) else topic
        for topic in response.topics
    )
    return dataclasses.replace(response, topics=tuple(topics))


def _failed_topic(topic: Any, code: ErrorCode, partition: int | None) -> Any:
    if partition is None:
        return dataclasses.replace(topic, error_code=code, partitions=())
    partitions = (
        dataclasses.replace(each, error_code=code, leader_id=-1) if each.partition_index == partition else each
        for each in topic.partitions
    )
    return dataclasses.replace(topic, partitions=tuple(partitions))
