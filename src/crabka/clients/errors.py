"""Errors of clients other than error codes of brokers, which are OperationErrors."""

from __future__ import annotations

from crabka.errors import CrabkaError, OperationError


class ClientNetworkError(CrabkaError):
    """A connection could not be opened, was lost, or its peer did not answer in time; a retry may help."""


class RequestTimeoutError(ClientNetworkError):
    """No response came in time. The request may have been executed all the same."""


class SessionEndedError(ClientNetworkError):
    """The broker closed the connection because the client was late to authenticate again.

    A new connection begins a new session. The broker refuses requests of an ended session.
    """


class VersionMismatchError(CrabkaError):
    """The broker offers no version of an API that this client supports."""


class ClientClosedError(CrabkaError):
    """The client was closed before or while the call was made."""


class AuthenticationError(CrabkaError):
    """Client and broker refuse each other's protection or identity; a retry does not help."""


class TlsAuthenticationError(AuthenticationError):
    """TLS with this broker failed: a certificate is not accepted, or one side does not expect TLS."""


class SaslAuthenticationError(AuthenticationError):
    """The broker does not accept the user or the mechanism, or does not prove that it knows the user."""


class TransactionError(OperationError):
    """A transaction cannot continue; the two subclasses say what the application can do."""


class AbortableTransactionError(TransactionError):
    """The open transaction cannot be committed: abort it, then the producer can begin the next one."""


class FatalTransactionError(TransactionError):
    """The producer has failed: close it."""


class ProducerFencedError(FatalTransactionError):
    """Another producer with the same transactional id has taken over, or the coordinator ended the transaction."""


class TransactionStateError(CrabkaError):
    """A call that does not fit the state of the transaction: a mistake in the application."""
