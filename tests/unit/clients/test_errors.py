"""Client errors: a timeout is a network error, a version mismatch is not."""

from __future__ import annotations

from crabka.clients.errors import (
    AbortableTransactionError,
    ClientClosedError,
    ClientNetworkError,
    FatalTransactionError,
    ProducerFencedError,
    RequestTimeoutError,
    TransactionError,
    TransactionStateError,
    VersionMismatchError,
)
from crabka.errors import CrabkaError, OperationError


def test_timeouts_are_network_errors_that_callers_may_retry() -> None:
    assert issubclass(RequestTimeoutError, ClientNetworkError)
    assert not issubclass(VersionMismatchError, ClientNetworkError)
    assert not issubclass(ClientClosedError, ClientNetworkError)
    assert issubclass(ClientNetworkError, CrabkaError)


def test_errors_of_transactions_say_whether_the_producer_can_go_on() -> None:
    assert issubclass(ProducerFencedError, FatalTransactionError)
    assert not issubclass(AbortableTransactionError, FatalTransactionError)
    assert issubclass(AbortableTransactionError, TransactionError)
    assert issubclass(TransactionError, OperationError)
    # A mistake of the application is no answer of the cluster.
    assert not issubclass(TransactionStateError, OperationError)
