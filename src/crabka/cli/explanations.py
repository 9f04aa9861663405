"""Errors of brokers in words for the person who typed the command: what is wrong, and which command shows more.

Brokers answer with a code and often with a general sentence. Errors of group requests, which name the group and its
members, are in `crabka.cli.groups.errors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

# What brokers say about any topic.
_GENERAL_TEXT: Final = "This server does not host this topic-partition."
# The number of an error of the operating system, whose text follows.
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.broker_id_not_registered: "`crabka brokers list` shows all brokers",
    ErrorCode.broker_not_available: "`crabka brokers list` shows all brokers",
    ErrorCode.cluster_authorization_failed: "this user may not do that; --command-config names another",
    ErrorCode.security_disabled: "authorizer.class.name in the settings of all nodes turns ACLs on",
    ErrorCode.topic_authorization_failed: "this user may not do that; --command-config names another",
}


def one_line(text: str) -> str:
    """Return a text on one line, in which nothing steers a terminal: it may hold what a peer or a person gave."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))


def explained_text(error: Exception) -> str:
    """Return the text of an error on one line; an error of a broker with what to do."""
    text = _ERRNO.sub("", one_line(str(error))) or type(error).__name__
    if not isinstance(error, OperationError):
        return text
    subject, _, answer = text.partition(": ")
    code = error.error_code
    if code is ErrorCode.unknown_topic_or_partition and answer in (code.name, _GENERAL_TEXT):
        kind, _, name = subject.rpartition(" ")
        return (
            f"{kind.replace('resource', 'topic')} {name} does not exist; `crabka topics list` shows all topics".strip()
        )
    return f"{text.rstrip('.')}; {_HINTS[code]}" if code in _HINTS else text
