"""Errors of group requests with an explanation and a remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

_MEANINGS = {
    ErrorCode.group_id_not_found: "group {group} does not exist; `crabka groups list` shows all groups",
    ErrorCode.invalid_group_id: "{group!r} is not the name of a group; `crabka groups list` shows all groups",
    ErrorCode.non_empty_group: "group {group} still has members; stop its consumers, or wait for their session "
    "timeout, and try again (`crabka groups describe {group}` shows them)",
    ErrorCode.unknown_member_id: "group {group} has new members; stop its consumers and try again",
    ErrorCode.group_subscribed_to_topic: "{error}: group {group} still reads that topic; stop its consumers, or let "
    "them unsubscribe, and try again",
    ErrorCode.coordinator_not_available: "{error}; the topic __consumer_offsets cannot be created or has no leader; "
    "see the log of the broker",
    ErrorCode.unknown_topic_or_partition: "{error}; `crabka topics list` shows all topics",
    ErrorCode.group_authorization_failed: "{error}; this user may not see or change group {group}",
}


@contextlib.contextmanager
def explained(group_id: str) -> Iterator[None]:
    """Raise OperationErrors from the block again with a text that names the remedy."""
    try:
        yield
    except OperationError as error:
        meaning = _MEANINGS.get(error.error_code)
        if meaning is None:
            raise
        raise OperationError(error.error_code, meaning.format(group=group_id, error=error)) from error
