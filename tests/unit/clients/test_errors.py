"""Client errors: a timeout is a network error, a version mismatch is not."""

from __future__ import annotations

from crabka.clients.errors import ClientClosedError, ClientNetworkError, RequestTimeoutError, VersionMismatchError
from crabka.errors import CrabkaError


def test_timeouts_are_network_errors_that_callers_may_retry() -> None:
    assert issubclass(RequestTimeoutError, ClientNetworkError)
    assert not issubclass(VersionMismatchError, ClientNetworkError)
    assert not issubclass(ClientClosedError, ClientNetworkError)
    assert issubclass(ClientNetworkError, CrabkaError)
