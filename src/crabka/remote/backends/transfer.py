"""Settings that all object stores share: how objects are cut for upload, and how patient requests are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from crabka.config.keys import INT, LONG, STRING, ConfigKey, boolean
from crabka.config.validators import Between, at_least
from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.backends.settings import StorageSettings
from crabka.vfs import read_file

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_MIB = 1 << 20
MIN_PART_BYTES = 5 * _MIB
_MAX_OBJECT_BYTES = 5 << 30
_DEFAULT_THRESHOLD_BYTES = 100 * _MIB
_DEFAULT_PART_BYTES = 16 * _MIB
_DEFAULT_MEMORY_BYTES = 256 * _MIB

TRANSFER_KEYS = (
    ConfigKey(
        "multipart.threshold.bytes",
        LONG,
        _DEFAULT_THRESHOLD_BYTES,
        "From this size on a segment is uploaded in parts, below it is read into memory as a whole.",
        Between(MIN_PART_BYTES, _MAX_OBJECT_BYTES),
    ),
    ConfigKey(
        "multipart.part.bytes",
        LONG,
        _DEFAULT_PART_BYTES,
        "The size of a part; an upload has at most four of them in memory.",
        Between(MIN_PART_BYTES, _MAX_OBJECT_BYTES),
    ),
    ConfigKey(
        "upload.memory.bytes",
        LONG,
        _DEFAULT_MEMORY_BYTES,
        "The memory of all uploads at a time; those that find none left wait for others to end.",
        at_least(MIN_PART_BYTES),
    ),
    ConfigKey("request.timeout.ms", INT, 30_000, "How long one request may take.", at_least(1)),
    ConfigKey("connect.timeout.ms", INT, 5_000, "How long connecting may take.", at_least(1)),
    ConfigKey("retry.max", INT, 5, "How often a failed request is sent again.", at_least(0)),
    ConfigKey("retry.backoff.ms", INT, 100, "The first pause before that; it doubles, with jitter.", at_least(1)),
    ConfigKey("retry.backoff.max.ms", INT, 10_000, "The longest such pause.", at_least(1)),
    ConfigKey("retry.timeout.ms", INT, 60_000, "After this time a request is not sent again.", at_least(1)),
    boolean("allow.http", "Whether requests may go unencrypted.", default=False),
    ConfigKey(
        "ca.certificate.path", STRING, None, "A PEM file with certificates to trust in addition to the system's."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """How a large object is cut. Raises ConfigError for parts that no store takes."""

    threshold_bytes: int = _DEFAULT_THRESHOLD_BYTES
    part_bytes: int = _DEFAULT_PART_BYTES
    parts_in_flight: int = 4
    memory_bytes: int = _DEFAULT_MEMORY_BYTES
    """What all uploads hold together; one that needs more than that runs alone."""

    def __post_init__(self) -> None:
        if self.part_bytes < MIN_PART_BYTES:
            raise ConfigError(f"multipart.part.bytes is {self.part_bytes}, a part has at least {MIN_PART_BYTES} bytes")

    @classmethod
    def from_settings(cls, settings: StorageSettings) -> UploadLimits:
        """Return the limits that the operator gave."""
        return cls(
            threshold_bytes=settings.number("multipart.threshold.bytes"),
            part_bytes=settings.number("multipart.part.bytes"),
            memory_bytes=settings.number("upload.memory.bytes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How requests are sent and sent again."""

    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 5_000
    retry_max: int = 5
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    retry_timeout_ms: int = 60_000
    allow_http: bool = False
    ca_certificate: bytes | None = None

    @classmethod
    def from_settings(cls, settings: StorageSettings, fs: FileSystem) -> HttpOptions:
        """Return what the operator chose. Raises ConfigError if the certificates cannot be read."""
        return cls(
            request_timeout_ms=settings.number("request.timeout.ms"),
            connect_timeout_ms=settings.number("connect.timeout.ms"),
            retry_max=settings.number("retry.max"),
            retry_backoff_ms=settings.number("retry.backoff.ms"),
            retry_backoff_max_ms=settings.number("retry.backoff.max.ms"),
            retry_timeout_ms=settings.number("retry.timeout.ms"),
            allow_http=settings.flag("allow.http"),
            ca_certificate=_read_certificate(fs, settings.maybe_text("ca.certificate.path")),
        )

    def require_allowed(self, endpoint: str | None) -> None:
        """Raise ConfigError if requests to `endpoint` would not be encrypted and no setting allows that."""
        if endpoint is None:
            return
        if not endpoint.startswith(("https://", "http://")):
            raise ConfigError("endpoint of the remote tier's storage has to begin with https:// or http://")
        if endpoint.startswith("http://") and not self.allow_http:
            raise ConfigError("endpoint of the remote tier's storage is http://, which only allow.http=true permits")

    def client_options(self) -> ClientConfig:
        """Return obstore's form of the timeouts and of TLS."""
        options: ClientConfig = {
            "allow_http": self.allow_http,
            "timeout": timedelta(milliseconds=self.request_timeout_ms),
            "connect_timeout": timedelta(milliseconds=self.connect_timeout_ms),
            "user_agent": "crabka",
        }
        if self.ca_certificate is not None:
            options["root_certificate"] = self.ca_certificate
        return options

    def retry_config(self) -> RetryConfig:
        """Return obstore's form of the retries; it adds jitter to the pauses."""
        return {
            "max_retries": self.retry_max,
            "retry_timeout": timedelta(milliseconds=self.retry_timeout_ms),
            "backoff": {
                "init_backoff": timedelta(milliseconds=self.retry_backoff_ms),
                "max_backoff": timedelta(milliseconds=self.retry_backoff_max_ms),
                "base": 2,
            },
        }


def _read_certificate(fs: FileSystem, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_file(fs, path)
    except OSError as error:
        raise ConfigError(f"ca.certificate.path of the remote tier's storage cannot be read: {error}") from error
