"""TLS for connections to brokers: the context of the settings, and clear messages for failures."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from typing import Final

from crabka.clients.errors import ClientNetworkError, TlsAuthenticationError
from crabka.clients.security.pem_text import pem_text_file
from crabka.clients.security.settings import CHAIN_KEY, KEY_KEY, PemFile, TlsSettings
from crabka.errors import ConfigError, CrabkaError

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
# Numbers of OpenSSL, see X509_V_ERR_* in x509_vfy.h.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_NAME: Final = (62, 64)
_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
# OpenSSL's reasons for bytes that are not TLS.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
# The first bytes of a TLS record, an alert or a handshake of any version, read as the length of a response.
_TLS_RECORD_HEADS: Final = (0x1503, 0x1603)


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client, with all files read. Raises ConfigError that names the property."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_name
    context.minimum_version = settings.min_version
    context.maximum_version = settings.max_version
    load_stores(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def load_stores(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    """Load what is trusted, and the own certificate. Reads files. Raises ConfigError that names the property."""
    # As in Java: any certificate in the truststore is trusted, also that of a peer itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.trusted_file is not None:
        _trust_file(context, settings.trusted_file)
    elif settings.trusted_text is not None:
        _trust_text(context, settings.trusted_text)
    else:
        context.load_default_certs(purpose)
    if settings.certificate_file is not None and settings.key_file is not None:
        _load_identity(context, settings.certificate_file, settings.key_file, settings)
    elif settings.certificate_text is not None and settings.key_text is not None:
        chain, key = settings.certificate_text, settings.key_text.reveal()
        with pem_text_file(CHAIN_KEY, chain) as certificate_file, pem_text_file(KEY_KEY, key) as key_file:
            _load_identity(context, certificate_file, key_file, settings)


def _trust_file(context: ssl.SSLContext, file: PemFile) -> None:
    try:
        context.load_verify_locations(cafile=file.path)
    except ssl.SSLError as error:
        raise ConfigError(f"{file.key}: {file.path} holds no certificates in PEM") from error
    except OSError as error:
        raise ConfigError(f"{file.key}: cannot read {file.path}: {error.strerror}") from error


def _trust_text(context: ssl.SSLContext, text: str) -> None:
    """Trust certificates written into the property, where line ends may have become blanks (KIP-651)."""
    try:
        encoded = b"".join(
            base64.b64decode("".join(body.split()), validate=True) for body in _CERTIFICATE.findall(text)
        )
        context.load_verify_locations(cadata=encoded)
    except (ssl.SSLError, ValueError, binascii.Error) as error:
        raise ConfigError("ssl.truststore.certificates: holds no certificates in PEM") from error


def _load_identity(context: ssl.SSLContext, certificate: PemFile, key: PemFile, settings: TlsSettings) -> None:
    asked: list[bool] = []

    def password() -> str:
        # Called only for an encrypted key; without a function OpenSSL would read from the terminal.
        asked.append(True)
        if settings.key_password is None:
            raise ConfigError(f"ssl.key.password: not set, and the key in {key.place} is encrypted")
        return settings.key_password.reveal()

    try:
        context.load_cert_chain(certificate.path, key.path, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key.key}: the key in {key.place} is not that of the certificate") from error
        if asked:
            raise ConfigError(f"ssl.key.password: does not open the key in {key.place}") from error
        where = certificate.place if certificate == key else f"{certificate.place} and {key.place}"
        raise ConfigError(f"{certificate.key}: no certificate with its key in PEM in {where}") from error
    except OSError as error:
        which = _unreadable(certificate, key)
        raise ConfigError(f"{which.key}: cannot read {which.path}: {error.strerror}") from error


def _unreadable(certificate: PemFile, key: PemFile) -> PemFile:
    """Return which of two files failed: OpenSSL does not name it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=certificate.path)
    except ssl.SSLError:
        return key
    except OSError:
        return certificate
    return key


def tls_failure(address: str, error: OSError) -> CrabkaError | None:
    """Return the exception for a failure of an encrypted connection; None if TLS is not the reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsAuthenticationError(f"TLS with {address}: {_certificate_problem(error)}")
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        hint = (
            "if its listener is without TLS, set security.protocol to PLAINTEXT or SASL_PLAINTEXT; "
            "if it wants a certificate of the client, set ssl.keystore.location to one that it trusts"
        )
        return ClientNetworkError(f"{address} closed the connection during the TLS handshake; {hint}")
    if not isinstance(error, ssl.SSLError):
        return None
    reason = getattr(error, "reason", None) or str(error)
    if reason in _NO_TLS:
        hint = "set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        return TlsAuthenticationError(f"{address} does not answer with TLS: {hint}")
    if "ALERT" in reason:
        return TlsAuthenticationError(f"TLS with {address}: {_alert(reason)}")
    return TlsAuthenticationError(f"TLS with {address} failed: {reason}")


def tls_length_failure(address: str, length: int) -> TlsAuthenticationError | None:
    """Return the exception for a response whose length is the beginning of a TLS record, else None."""
    if length >> 16 not in _TLS_RECORD_HEADS:
        return None
    return TlsAuthenticationError(f"{address} answers with TLS: set security.protocol to SSL or SASL_SSL")


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    code, message = error.verify_code, error.verify_message
    if code in _UNKNOWN_AUTHORITY:
        return (
            f"its certificate is not signed by an authority in ssl.ca.location or ssl.truststore.location ({message})"
        )
    if code in _WRONG_NAME:
        return f"its certificate is for another host: {message}"
    if code == _EXPIRED:
        return f"its certificate, or one that signed it, is no longer valid ({message})"
    if code == _NOT_YET_VALID:
        return f"its certificate, or one that signed it, is not valid yet ({message})"
    return f"its certificate is not accepted: {message}"


def _alert(reason: str) -> str:
    name = reason.partition("ALERT_")[2].replace("_", " ").lower()
    if "certificate" in name or name in ("unknown ca", "handshake failure"):
        # Which alert says that a certificate is missing differs among versions and brokers.
        hint = "if it wants a certificate of the client, set ssl.keystore.location to one that it trusts"
        return f"the broker ended it with {name!r}; {hint}"
    return f"the broker ended it with {name!r}"
