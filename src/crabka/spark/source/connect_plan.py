"""What a DataFrame of Spark Connect asks of the source, out of the plan that its client holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame


def reads_of_connect_frame(frame: DataFrame) -> list[dict[str, str]]:
    """Return the options of every read in a frame, their names in lower case."""
    connect: Any = frame
    plan: Message = connect._plan.to_proto(connect.sparkSession.client)
    sources: list[Any] = [
        each for each in _messages(plan) if each.DESCRIPTOR.full_name == "spark.connect.Read.DataSource"
    ]
    return [{name.lower(): value for name, value in source.options.items()} for source in sources]


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all that are in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else [value]:
            yield from _messages(each)
