from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.azure import AzureConfig, azure_storage
from crabka.remote.errors import RemoteBackendError
from crabka.testing import MemoryFileSystem
from tests.support.tiers.segments import write_segment

PLACE = {"account": "acme", "container": "logs"}
SECRETS = {"account.key": "aHVzaC1odXNo", "sas.token": "sv=1&sig=hush%2Bhush", "client.secret": "hush-client"}
PRINCIPAL = {"tenant.id": "tenant", "client.id": "client"}


def test_all_settings_arrive_and_secrets_are_not_shown() -> None:
    settings = PLACE | SECRETS | PRINCIPAL | {"prefix": "cold", "endpoint": "https://blob.example"}
    found = AzureConfig.from_settings(settings, MemoryFileSystem())
    assert found == AzureConfig(
        account="acme",
        container="logs",
        prefix="cold",
        endpoint="https://blob.example",
        account_key="aHVzaC1odXNo",
        sas_token="sv=1&sig=hush%2Bhush",
        tenant_id="tenant",
        client_id="client",
        client_secret="hush-client",
    )
    assert found.secrets == list(SECRETS.values())
    storage = azure_storage(MemoryFileSystem())
    storage.configure(settings)
    assert repr(storage) == "ObjectStoreStorage(Bucket('az://acme/logs/cold'))"
    assert not [text for text in (repr(found), repr(storage)) for secret in SECRETS.values() if secret in text]
    storage.close()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"container": "logs"}, "account"),
        ({"account": "acme"}, "container"),
        (PLACE | {"bucket": "x"}, "bucket"),
        (PLACE | {"client.secret": "hush-client"}, "tenant.id"),
        (PLACE | PRINCIPAL, "client.secret"),
        (PLACE | {"endpoint": "http://x"}, "allow.http"),
        (PLACE | {"account.key": "hush, no base64"}, "cannot be set up"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_without_secrets(given: dict[str, str], named: str) -> None:
    storage = azure_storage(MemoryFileSystem())
    with pytest.raises(ConfigError) as refusal:
        storage.configure(given)
    assert named in str(refusal.value)
    assert "hush" not in str(refusal.value)
    storage.close()


def test_a_signature_in_the_address_of_a_request_does_not_show_in_its_error() -> None:
    storage = azure_storage(MemoryFileSystem())
    nobody = {"endpoint": "http://127.0.0.1:1/acme", "allow.http": "true", "retry.max": "0"}
    storage.configure(PLACE | {"sas.token": SECRETS["sas.token"]} | nobody)
    segment = write_segment(MemoryFileSystem(), "/local")
    with pytest.raises(RemoteBackendError, match="Connection refused") as failure:
        storage.fetch_log_segment(segment.metadata, 0)
    assert "hush" not in str(failure.value)
    storage.close()
