"""A container of Azure Blob Storage as a tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import AzureStore

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
    from obstore.store import AzureConfig as StoreConfig

AZURE_KEYS = (
    ConfigKey("account", STRING, REQUIRED, "The storage account.", NotEmpty()),
    ConfigKey("container", STRING, REQUIRED, "The container; it has to exist.", NotEmpty()),
    ConfigKey("prefix", STRING, "", "What all keys begin with, without the slash after it."),
    ConfigKey("endpoint", STRING, None, "The address of a store that is not Microsoft's."),
    ConfigKey("account.key", PASSWORD, None, "The key of the account."),
    ConfigKey("sas.token", PASSWORD, None, "A shared access signature, as the portal shows it."),
    ConfigKey("tenant.id", STRING, None, "The tenant of a service principal."),
    ConfigKey("client.id", STRING, None, "A service principal; without any of these Azure's defaults apply."),
    ConfigKey("client.secret", PASSWORD, None, "The secret of the service principal."),
    *TRANSFER_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureConfig:
    """Where the container is and how to get in. Raises ConfigError for what cannot work; shows no secrets."""

    account: str
    container: str
    prefix: str = ""
    endpoint: str | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    limits: UploadLimits = field(default_factory=UploadLimits)
    http: HttpOptions = field(default_factory=HttpOptions)

    def __post_init__(self) -> None:
        self.http.require_allowed(self.endpoint)

    @classmethod
    def from_settings(cls, given: Mapping[str, str], fs: FileSystem) -> AzureConfig:
        """Return the configuration that settings describe. Raises ConfigError that names what is wrong."""
        settings = StorageSettings(AZURE_KEYS, given)
        settings.complete("tenant.id", "client.id", "client.secret")
        return cls(
            account=settings.text("account"),
            container=settings.text("container"),
            prefix=settings.text("prefix"),
            endpoint=settings.maybe_text("endpoint"),
            account_key=settings.maybe_text("account.key"),
            sas_token=settings.maybe_text("sas.token"),
            tenant_id=settings.maybe_text("tenant.id"),
            client_id=settings.maybe_text("client.id"),
            client_secret=settings.maybe_text("client.secret"),
            limits=UploadLimits.from_settings(settings),
            http=HttpOptions.from_settings(settings, fs),
        )

    @property
    def secrets(self) -> list[str]:
        """What must not appear anywhere."""
        return [secret for secret in (self.account_key, self.sas_token, self.client_secret) if secret]

    def open(self) -> Bucket:
        """Return the container; nothing is sent yet. Raises ConfigError."""
        try:
            store = AzureStore(
                self.container,
                config=self._store_config(),
                client_options=self.http.client_options(),
                retry_config=self.http.retry_config(),
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(hide(f"The Azure storage cannot be set up: {error}", self.secrets)) from None
        where = f"az://{self.account}/{self.container}"
        location = "/".join(part for part in (where, self.prefix.strip("/")) if part)
        return Bucket(store, location=location, prefix=self.prefix, limits=self.limits, secrets=self.secrets)

    def _store_config(self) -> StoreConfig:
        config: StoreConfig = {"account_name": self.account}
        if self.endpoint is not None:
            config["endpoint"] = self.endpoint
        if self.account_key is not None:
            config["account_key"] = self.account_key
        if self.sas_token is not None:
            config["sas_key"] = self.sas_token
        if self.tenant_id is not None and self.client_id is not None and self.client_secret is not None:
            config["tenant_id"] = self.tenant_id
            config["client_id"] = self.client_id
            config["client_secret"] = self.client_secret
        return config


def azure_storage(fs: FileSystem | None = None) -> ObjectStoreStorage:
    """Return a storage in a container of Azure Blob Storage; `configure` takes the settings of AZURE_KEYS."""
    return ObjectStoreStorage(lambda settings, local: AzureConfig.from_settings(settings, local).open(), fs)
