from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, InvalidPathError, PermissionDeniedError, UnauthenticatedError

from crabka.remote.backends.store_errors import backend_error, hide, is_missing_key, is_missing_upload

FORBIDDEN = """The operation lacked privileges: Error performing PUT https://s3/b/k in 1ms - Server returned non-2xx \
status code: 403 Forbidden: <?xml version="1.0"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>Check your key.</Message><AWSAccessKeyId>AKID</AWSAccessKeyId></Error>

Debug source:
PermissionDenied { path: "k" }"""


def status(code: int, name: str, body: str = "") -> str:
    return f"Generic S3 error: Error performing GET https://s3/b/k in 1ms - status code: {code} {name}: {body}"


def test_only_a_missing_key_is_missing() -> None:
    assert is_missing_key(FileNotFoundError("Object at location k not found: No such file or directory"))
    assert is_missing_key(FileNotFoundError("404 Not Found: "))
    assert is_missing_key(FileNotFoundError("404: <Error><Code>NoSuchKey</Code></Error>"))
    assert is_missing_key(FileNotFoundError("404: <Error><Code>BlobNotFound</Code></Error>"))
    for code in ("NoSuchBucket", "ContainerNotFound", "NoSuchUpload", "XAdminUserNotFound"):
        assert not is_missing_key(FileNotFoundError(f"404: <Error><Code>{code}</Code></Error>"))
    assert not is_missing_key(GenericError("NoSuchKey"))


def test_an_upload_that_is_gone_is_reported_from_other_errors() -> None:
    assert is_missing_upload(FileNotFoundError("404: <Error><Code>NoSuchUpload</Code></Error>"))
    assert not is_missing_upload(FileNotFoundError("404: <Error><Code>NoSuchKey</Code></Error>"))
    assert not is_missing_upload(OSError(5, "Input/output error"))


def test_the_message_is_one_line_with_what_the_store_said() -> None:
    error = backend_error(PermissionDeniedError(FORBIDDEN), "write k in s3://b", ["AKID"])
    assert str(error) == "cannot write k in s3://b: 403 Forbidden, SignatureDoesNotMatch: Check your key."


def test_without_an_answer_the_message_says_what_the_system_said() -> None:
    text = (
        "Generic S3 error: Error performing HEAD http://s3/b/k?sig=abc in 2ms,\n  after 2 retries"
        '\n\nDebug source:\nOs { code: 111, message: "Connection refused" }'
    )
    error = backend_error(GenericError(text), "read k", [])
    request = "Error performing HEAD http://s3/b/k in 2ms, after 2 retries"
    assert str(error) == f"cannot read k: Generic S3 error: {request} (Connection refused)"


def test_a_message_has_an_end() -> None:
    assert len(str(backend_error(GenericError("x" * 100_000), "read k", []))) < 500


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (GenericError("HTTP error: error sending request"), True),
        (GenericError(status(500, "Internal Server Error")), True),
        (GenericError(status(503, "Service Unavailable")), True),
        (GenericError(status(429, "Too Many Requests")), True),
        (GenericError(status(400, "Bad Request")), False),
        (GenericError(status(416, "Range Not Satisfiable")), False),
        (FileNotFoundError(status(404, "Not Found", "<Code>NoSuchBucket</Code>")), False),
        (PermissionDeniedError("no"), False),
        (UnauthenticatedError("no"), False),
        (InvalidPathError("no"), False),
        (ValueError("no"), False),
        (OSError(28, "No space left on device"), True),
    ],
)
def test_what_may_pass_may_be_tried_again(error: Exception, retriable: bool) -> None:
    assert backend_error(error, "read k", []).retriable is retriable


def test_secrets_are_hidden_also_as_they_stand_in_addresses() -> None:
    secret = "a+b/c=="
    text = f"{secret} and sig=a%2Bb%2Fc%3D%3D and a%2Bb/c%3D%3D"
    assert hide(text, [secret]) == "*** and sig=*** and ***"
