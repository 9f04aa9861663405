"""Patterns of clients in RE2 syntax, which take linear time: of topics (KIP-848) and of transactional ids (KIP-1152).

A pattern is matched against whole names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

SUBSCRIPTION: Final = "SubscribedTopicRegex"
_OPTIONS = re2.Options()
# A pattern that does not compile is the client's mistake: the client gets the error, the node does not log it.
_OPTIONS.log_errors = False


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, field: str) -> Any:
    """Compile the pattern in a field of a request. Raises OperationError: INVALID_REGULAR_EXPRESSION."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text = f"{field} `{pattern}` is not a valid regular expression: {error}."
        raise OperationError(ErrorCode.invalid_regular_expression, text) from error


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the topics that a pattern means, by their whole names."""
    matches = compile_pattern(pattern, SUBSCRIPTION).fullmatch
    return frozenset(name for name in names if matches(name) is not None)
