"""TLS of a listener as its connections see it: a context, who a client is, and a text for handshakes that fail."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, Protocol

from crabka.errors import WireError

if TYPE_CHECKING:
    from crabka.security.principal import Principal

# OpenSSL's reasons for bytes that are not TLS.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})


class ListenerTls(Protocol):
    """The TLS of one listener."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of new connections."""

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client by its verified certificate in DER. Raises WireError."""
        ...


def tls_failure(listener: str, error: OSError) -> WireError | None:
    """Return what a client did wrong in a handshake; None if it only went away."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return WireError(f"TLS at listener {listener}: its certificate is not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = error.reason or "an unknown reason"
        if reason in _NO_TLS:
            return WireError(f"listener {listener} expects TLS, and it sent something else")
        return WireError(f"TLS at listener {listener} failed: {reason.replace('_', ' ').lower()}")
    if isinstance(error, TimeoutError) or "handshake is taking longer" in str(error):
        return WireError(f"TLS at listener {listener}: it did not finish the handshake in time")
    return None
