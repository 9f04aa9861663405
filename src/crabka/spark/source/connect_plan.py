"""What a DataFrame of Spark Connect asks of the source, out of the plan that its client holds.

The options are in it as they were given. What a filter means is found out by the server alone: here it is still text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame


def plan_of_connect_frame(frame: DataFrame) -> Message:
    """Return the plan that the client would send."""
    connect: Any = frame
    plan: Message = connect._plan.to_proto(connect.sparkSession.client)
    return plan


def reads_in_plan(plan: Message) -> list[dict[str, str]]:
    """Return the options of every read in a plan, their names in lower case."""
    sources = [
        message for message in _messages(plan) if message.DESCRIPTOR.full_name == "spark.connect.Read.DataSource"
    ]
    return [{name.lower(): value for name, value in _options(source).items()} for source in sources]


def has_filters(plan: Message) -> bool:
    """Whether the server will filter rows."""
    return any(message.DESCRIPTOR.full_name == "spark.connect.Filter" for message in _messages(plan))


def _options(source: Any) -> dict[str, str]:
    return dict(source.options)


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all that are in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else [value]:
            yield from _messages(each)
