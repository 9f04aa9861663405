"""A bucket of S3, or of a store with its protocol, as a tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import S3Store

from crabka.config.keys import PASSWORD, REQUIRED, STRING, ConfigKey, boolean
from crabka.config.validators import NotEmpty, OneOf
from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.backends.settings import StorageSettings
from crabka.remote.backends.store_errors import hide
from crabka.remote.backends.transfer import TRANSFER_KEYS, HttpOptions, UploadLimits

if TYPE_CHECKING:
    from obstore.store import S3Config as StoreConfig

_CHECKSUMS = ("sha256", "crc64nvme", "none")

S3_KEYS = (
    ConfigKey("bucket", STRING, REQUIRED, "The bucket; it has to exist.", NotEmpty()),
    ConfigKey("prefix", STRING, "", "What all keys begin with, without the slash after it."),
    ConfigKey("region", STRING, None, "The region; AWS_REGION or us-east-1 without it."),
    ConfigKey("endpoint", STRING, None, "The address of a store that is not Amazon's."),
    ConfigKey("access.key.id", PASSWORD, None, "The access key; without it AWS's usual places are searched."),
    ConfigKey("secret.access.key", PASSWORD, None, "The secret that belongs to the access key."),
    ConfigKey("session.token", PASSWORD, None, "The token of temporary credentials."),
    boolean("virtual.hosted.style", "Whether the bucket's name is part of the host's.", default=False),
    ConfigKey(
        "checksum.algorithm",
        STRING,
        "sha256",
        "What the store checks and keeps of every object; none for stores that know no checksums.",
        OneOf(_CHECKSUMS),
    ),
    *TRANSFER_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    """Where the bucket is and how to get in. Raises ConfigError for what cannot work; shows no secrets."""

    bucket: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    virtual_hosted_style: bool = False
    checksum_algorithm: str = "sha256"
    limits: UploadLimits = field(default_factory=UploadLimits)
    http: HttpOptions = field(default_factory=HttpOptions)

    def __post_init__(self) -> None:
        self.http.require_allowed(self.endpoint)
        if self.session_token is not None and self.access_key_id is None:
            raise ConfigError("session.token of the remote tier's storage needs access.key.id too")

    @classmethod
    def from_settings(cls, given: Mapping[str, str], fs: FileSystem) -> S3Config:
        """Return the configuration that settings describe. Raises ConfigError that names what is wrong."""
        settings = StorageSettings(S3_KEYS, given)
        settings.complete("access.key.id", "secret.access.key")
        return cls(
            bucket=settings.text("bucket"),
            prefix=settings.text("prefix"),
            region=settings.maybe_text("region"),
            endpoint=settings.maybe_text("endpoint"),
            access_key_id=settings.maybe_text("access.key.id"),
            secret_access_key=settings.maybe_text("secret.access.key"),
            session_token=settings.maybe_text("session.token"),
            virtual_hosted_style=settings.flag("virtual.hosted.style"),
            checksum_algorithm=settings.text("checksum.algorithm"),
            limits=UploadLimits.from_settings(settings),
            http=HttpOptions.from_settings(settings, fs),
        )

    @property
    def secrets(self) -> list[str]:
        """What must not appear anywhere."""
        return [secret for secret in (self.access_key_id, self.secret_access_key, self.session_token) if secret]

    def open(self) -> Bucket:
        """Return the bucket; nothing is sent yet. Raises ConfigError."""
        try:
            store = S3Store(
                self.bucket,
                config=self._store_config(),
                client_options=self.http.client_options(),
                retry_config=self.http.retry_config(),
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(hide(f"The S3 storage cannot be set up: {error}", self.secrets)) from None
        location = "/".join(part for part in (f"s3://{self.bucket}", self.prefix.strip("/")) if part)
        return Bucket(store, location=location, prefix=self.prefix, limits=self.limits, secrets=self.secrets)

    def _store_config(self) -> StoreConfig:
        config: StoreConfig = {"virtual_hosted_style_request": self.virtual_hosted_style}
        if self.region is not None:
            config["region"] = self.region
        if self.endpoint is not None:
            config["endpoint"] = self.endpoint
        if self.access_key_id is not None and self.secret_access_key is not None:
            config["access_key_id"] = self.access_key_id
            config["secret_access_key"] = self.secret_access_key
        if self.session_token is not None:
            config["session_token"] = self.session_token
        if self.checksum_algorithm != "none":
            config["checksum_algorithm"] = self.checksum_algorithm
        return config


def s3_storage(fs: FileSystem | None = None) -> ObjectStoreStorage:
    """Return a storage in a bucket of S3; `configure` takes the settings of S3_KEYS."""
    return ObjectStoreStorage(lambda settings, local: S3Config.from_settings(settings, local).open(), fs)
