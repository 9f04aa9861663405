"""What a client cannot get from a broker, beside the error codes that come as OperationError."""

from __future__ import annotations

from crabka.errors import CrabkaError, OperationError


class ClientNetworkError(CrabkaError):
    """A connection could not be opened, was lost, or its peer did not answer in time; trying again may help."""


class RequestTimeoutError(ClientNetworkError):
    """No response came in time. The request may have been carried out all the same."""


class SessionEndedError(ClientNetworkError):
    """The broker closed the connection because the client was late to authenticate again.

    A new connection begins a new session. The broker takes no request of a session that is over.
    """


class VersionMismatchError(CrabkaError):
    """The broker offers no version of an API that this client speaks."""


class ClientClosedError(CrabkaError):
    """The client was closed before or while the call was made."""


class AuthenticationError(CrabkaError):
    """Client and broker do not agree on a channel or on who the other is; trying again does not help."""


class TlsAuthenticationError(AuthenticationError):
    """There is no TLS with this broker: a certificate is not accepted, or one side does not expect TLS."""


class SaslAuthenticationError(AuthenticationError):
    """The broker does not accept the user or the mechanism, or does not prove that it knows the user."""


class TransactionError(OperationError):
    """A transaction cannot go on; the two kinds say what the application can do."""


class AbortableTransactionError(TransactionError):
    """The open transaction cannot be committed: abort it, and the producer is good for the next one."""


class FatalTransactionError(TransactionError):
    """The producer is of no use any more: close it."""


class ProducerFencedError(FatalTransactionError):
    """Another producer with the same transactional id has taken over, or the coordinator ended the transaction."""


class TransactionStateError(CrabkaError):
    """A call that does not fit the state of the transaction: a mistake in the application."""
