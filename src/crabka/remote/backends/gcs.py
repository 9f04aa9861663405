"""A bucket of Google Cloud Storage as a tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import GCSStore

from crabka.config.keys import PASSWORD, REQUIRED, STRING, ConfigKey
from crabka.config.validators import NotEmpty
from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.backends.settings import StorageSettings
from crabka.remote.backends.store_errors import hide
from crabka.remote.backends.transfer import TRANSFER_KEYS, HttpOptions, UploadLimits

if TYPE_CHECKING:
    from obstore.store import GCSConfig as StoreConfig

GCS_KEYS = (
    ConfigKey("bucket", STRING, REQUIRED, "The bucket; it has to exist.", NotEmpty()),
    ConfigKey("prefix", STRING, "", "What all keys begin with, without the slash after it."),
    ConfigKey("endpoint", STRING, None, "The address of a store that is not Google's."),
    ConfigKey("service.account.path", STRING, None, "The file with the key of a service account."),
    ConfigKey("service.account.key", PASSWORD, None, "Such a key itself; without both Google's defaults apply."),
    *TRANSFER_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsConfig:
    """Where the bucket is and how to get in. Raises ConfigError for what cannot work; shows no secrets."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    service_account_path: str | None = None
    service_account_key: str | None = field(default=None, repr=False)
    limits: UploadLimits = field(default_factory=UploadLimits)
    http: HttpOptions = field(default_factory=HttpOptions)

    def __post_init__(self) -> None:
        self.http.require_allowed(self.endpoint)
        if self.service_account_path is not None and self.service_account_key is not None:
            raise ConfigError("service.account.path and service.account.key exclude each other")

    @classmethod
    def from_settings(cls, given: Mapping[str, str], fs: FileSystem) -> GcsConfig:
        """Return the configuration that settings describe. Raises ConfigError that names what is wrong."""
        settings = StorageSettings(GCS_KEYS, given)
        return cls(
            bucket=settings.text("bucket"),
            prefix=settings.text("prefix"),
            endpoint=settings.maybe_text("endpoint"),
            service_account_path=settings.maybe_text("service.account.path"),
            service_account_key=settings.maybe_text("service.account.key"),
            limits=UploadLimits.from_settings(settings),
            http=HttpOptions.from_settings(settings, fs),
        )

    def open(self) -> Bucket:
        """Return the bucket; nothing is sent yet. Raises ConfigError."""
        config: StoreConfig = {}
        if self.endpoint is not None:
            config["base_url"] = self.endpoint
        if self.service_account_path is not None:
            config["service_account"] = self.service_account_path
        if self.service_account_key is not None:
            config["service_account_key"] = self.service_account_key
        secrets = [self.service_account_key] if self.service_account_key else []
        try:
            store = GCSStore(
                self.bucket,
                config=config,
                client_options=self.http.client_options(),
                retry_config=self.http.retry_config(),
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(hide(f"The GCS storage cannot be set up: {error}", secrets)) from None
        location = "/".join(part for part in (f"gs://{self.bucket}", self.prefix.strip("/")) if part)
        return Bucket(store, location=location, prefix=self.prefix, limits=self.limits, secrets=secrets)


def gcs_storage(fs: FileSystem | None = None) -> ObjectStoreStorage:
    """Return a storage in a bucket of Google Cloud Storage; `configure` takes the settings of GCS_KEYS."""
    return ObjectStoreStorage(lambda settings, local: GcsConfig.from_settings(settings, local).open(), fs)
