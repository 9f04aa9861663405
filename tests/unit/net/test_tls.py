"""What the log says of handshakes that fail."""

from __future__ import annotations

import ssl

import pytest

from crabka.net.tls import tls_failure


def failed(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (failed("WRONG_VERSION_NUMBER"), "listener X expects TLS, and it sent something else"),
        (failed("HTTP_REQUEST"), "listener X expects TLS, and it sent something else"),
        (failed("UNSUPPORTED_PROTOCOL"), "TLS at listener X failed: unsupported protocol"),
        (TimeoutError(), "TLS at listener X: it did not finish the handshake in time"),
        (ConnectionAbortedError("SSL handshake is taking longer than 10 seconds"), "TLS at listener X: it did not"),
    ],
)
def test_mistakes_of_a_client(error: OSError, text: str) -> None:
    assert text in str(tls_failure("X", error))


@pytest.mark.parametrize("error", [ConnectionResetError(), ssl.SSLEOFError(), BrokenPipeError()])
def test_a_client_that_only_leaves_is_no_news(error: OSError) -> None:
    assert tls_failure("X", error) is None
