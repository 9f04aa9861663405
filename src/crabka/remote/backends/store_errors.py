"""What object stores and obstore say, in the terms of the tier, and without anything secret.

Stores answer 404 for a key that is missing and for a bucket or an account that is; only the first means that a segment
is not there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from obstore.exceptions import (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from crabka.errors import CrabkaError
from crabka.remote.errors import RemoteBackendError

# How S3, GCS (XML) and Azure say that the key is what is missing.
_MISSING_KEY_CODES = frozenset({"NoSuchKey", "BlobNotFound"})
_HOPELESS = (PermissionDeniedError, UnauthenticatedError, InvalidPathError, NotSupportedError, ValueError)
# 4xx that may pass: request timeout, conflict with another request, too early, too many requests.
_PASSING_STATUSES = frozenset({408, 409, 425, 429})

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<]*?)\s*</Message>")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_SYSTEM_MESSAGE = re.compile(r'message: "([^"]{1,100})"')
_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_MAX_CHARACTERS = 400


class ObjectMissingError(CrabkaError):
    """There is no object of that key."""


def is_missing_key(error: Exception) -> bool:
    """Return whether an error of a read or a deletion says that the key, and nothing more, is missing."""
    if not isinstance(error, FileNotFoundError):
        return False
    code = _CODE.search(str(error))
    return code is None or code[1] in _MISSING_KEY_CODES


def is_missing_upload(error: Exception) -> bool:
    """Return whether an error says that an upload in parts is not there any more: it was completed or aborted."""
    code = _CODE.search(str(error))
    return code is not None and code[1] == "NoSuchUpload"


def backend_error(error: Exception, action: str, secrets: Sequence[str]) -> RemoteBackendError:
    """Return what to raise for an error of a store."""
    text = hide(f"cannot {action}: {_summary(str(error))}", secrets)
    return RemoteBackendError(text, retriable=_may_pass(error))


def hide(text: str, secrets: Sequence[str]) -> str:
    """Return a text without secrets, also as they stand in addresses."""
    for secret in secrets:
        for form in {secret, quote(secret, safe=""), quote(secret)}:
            text = text.replace(form, "***")
    return text


def _summary(text: str) -> str:
    """Return one line: the code and the message of the store where it sent some, else what obstore says."""
    said, _, debug = text.partition("\n\nDebug source:")
    status, code, message = _STATUS.search(said), _CODE.search(said), _MESSAGE.search(said)
    if status is not None and code is not None:
        return f"{status[1].strip()}, {code[1]}{': ' + message[1] if message else ''}"[:_MAX_CHARACTERS]
    cause = _SYSTEM_MESSAGE.search(debug)
    # A query may hold a signature.
    line = _QUERY.sub(r"\1", " ".join(said.split()))[:_MAX_CHARACTERS]
    return f"{line} ({cause[1]})" if cause else line


def _may_pass(error: Exception) -> bool:
    if isinstance(error, _HOPELESS):
        return False
    status = _STATUS.search(str(error))
    if status is None:
        return True
    number = int(status[1][:3])
    return not 400 <= number < 500 or number in _PASSING_STATUSES
