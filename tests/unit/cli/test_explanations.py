"""Errors of brokers say what does not exist and which command shows what does."""

from __future__ import annotations

import pytest

from crabka.cli.explanations import explained_text
from crabka.errors import CrabkaError, OperationError
from crabka.protocol.error_codes import ErrorCode

UNKNOWN = ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OperationError(UNKNOWN, "topic a: unknown_topic_or_partition"), "topic a does not exist; `crabka topics"),
        (
            OperationError(UNKNOWN, "resource a: This server does not host this topic-partition."),
            "topic a does not exist; `crabka topics list`",
        ),
        (OperationError(UNKNOWN, "a-7: unknown_topic_or_partition"), "a-7 does not exist; `crabka topics list`"),
        (OperationError(UNKNOWN, "resource a: Topic 'a' does not exist."), "resource a: Topic 'a' does not exist."),
        (OperationError(ErrorCode.broker_id_not_registered, "broker 4: no"), "broker 4: no; `crabka brokers list`"),
        (
            OperationError(ErrorCode.topic_authorization_failed, "topic a: Authorization failed."),
            "topic a: Authorization failed; this user may not do that",
        ),
        (
            OperationError(ErrorCode.security_disabled, "ACLs: none"),
            "ACLs: none; authorizer.class.name in the settings",
        ),
        (OperationError(ErrorCode.invalid_request, "two\nlines"), "two lines"),
        (OperationError(ErrorCode.invalid_request), "invalid_request"),
        (CrabkaError(), "CrabkaError"),
        (CrabkaError("a\x1b[2Jb"), "a\\x1b[2Jb"),
        (OSError(2, "No such file", "x"), "No such file: 'x'"),
        (CrabkaError("cannot connect to a:1: [Errno 111] refused"), "cannot connect to a:1: refused"),
    ],
)
def test_errors_are_explained(error: Exception, text: str) -> None:
    assert explained_text(error).startswith(text)
