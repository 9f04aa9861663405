"""TLS at a listener: its context, and the principal in a client's certificate.

When a file of the settings changes, later connections get a new context. A file that cannot be used leaves the old one
in force, and is reported once.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

from crabka.clients.security.settings import TlsSettings
from crabka.clients.security.store_settings import listener_stores
from crabka.clients.security.tls import load_stores
from crabka.errors import ConfigError, WireError
from crabka.security.principal import ANONYMOUS, USER, Principal
from crabka.security.tls.distinguished_name import subject_of
from crabka.security.tls.principal_mapping import KEY as RULES_KEY
from crabka.security.tls.principal_mapping import PrincipalMapping

if TYPE_CHECKING:
    from crabka.config.listener_settings import ListenerSettings
    from crabka.ports import FileStat, FileSystem

logger = logging.getLogger(__name__)

_CLIENT_AUTH: Final = "ssl.client.auth"
_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ServerTls:
    """The TLS of one listener."""

    def __init__(self, settings: ListenerSettings, fs: FileSystem) -> None:
        """Read the files of the settings. Raises ConfigError."""
        self._name = settings.name
        self._fs = fs
        self._stores = listener_stores(settings)
        if self._stores.certificate_file is None and self._stores.certificate_text is None:
            raise ConfigError(
                f"ssl.keystore.location: listener {settings.name} needs a certificate, here or in"
                " ssl.keystore.certificate.chain and ssl.keystore.key"
            )
        # As in Kafka, certificates are asked for at SASL_SSL only where the listener itself says so.
        asks = not settings.uses_sasl or settings.is_own(_CLIENT_AUTH)
        self._verify_mode = _VERIFY_MODES[str(settings.value(_CLIENT_AUTH))] if asks else ssl.CERT_NONE
        self._mapping = PrincipalMapping(str(settings.value(RULES_KEY)))
        self._last_error = ""
        self._seen = self._look()
        self.context = self._load()

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's verified certificate in DER. Raises WireError if no rule applies."""
        if not certificate:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = self._mapping.name_of(subject)
        if name is None:
            raise WireError(f"no rule of {RULES_KEY} applies to the certificate of {subject}")
        return Principal(USER, name)

    def reload_if_changed(self) -> None:
        """Load the files again if one of them changed since the last call."""
        found = self._look()
        if found == self._seen:
            return
        self._seen = found
        try:
            self.context = self._load()
        except ConfigError as error:
            if str(error) != self._last_error:
                logger.warning("listener %s keeps its certificate: %s", self._name, error)
            self._last_error = str(error)
        else:
            self._last_error = ""
            logger.info("listener %s has new certificates", self._name)

    def _look(self) -> dict[str, FileStat | None]:
        stores = self._stores
        files = (stores.certificate_file, stores.key_file, stores.trusted_file)
        return {file.path: _stat(self._fs, file.path) for file in files if file is not None}

    def _load(self) -> ssl.SSLContext:
        stores: TlsSettings = self._stores
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = stores.min_version
        context.maximum_version = stores.max_version
        context.verify_mode = self._verify_mode
        load_stores(context, stores, ssl.Purpose.CLIENT_AUTH)
        return context


def _stat(fs: FileSystem, path: str) -> FileStat | None:
    try:
        return fs.stat(path)
    except OSError:
        return None
