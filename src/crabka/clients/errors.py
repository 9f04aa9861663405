"""What a client cannot get from a broker, beside the error codes that come as OperationError."""

from __future__ import annotations

from crabka.errors import CrabkaError


class ClientNetworkError(CrabkaError):
    """A connection could not be opened, was lost, or its peer did not answer in time; trying again may help."""


class RequestTimeoutError(ClientNetworkError):
    """No response came in time. The request may have been carried out all the same."""


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
