from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.gcs import GcsConfig, gcs_storage
from crabka.testing import MemoryFileSystem

KEY = '{"client_email": "x", "private_key": "hush-hush", "private_key_id": "1", "disable_oauth": true}'


def test_all_settings_arrive_and_the_key_is_not_shown() -> None:
    settings = {"bucket": "logs", "prefix": "cold", "service.account.key": KEY, "endpoint": "https://gcs.example"}
    found = GcsConfig.from_settings(settings, MemoryFileSystem())
    assert found == GcsConfig(bucket="logs", prefix="cold", service_account_key=KEY, endpoint="https://gcs.example")
    storage = gcs_storage(MemoryFileSystem())
    storage.configure(settings)
    assert repr(storage) == "ObjectStoreStorage(Bucket('gs://logs/cold'))"
    assert not [text for text in (repr(found), str(found), repr(storage)) if "hush" in text]
    storage.close()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "bucket"),
        ({"bucket": "logs", "region": "x"}, "region"),
        ({"bucket": "logs", "endpoint": "http://x"}, "allow.http"),
        ({"bucket": "logs", "multipart.part.bytes": "1"}, "multipart.part.bytes"),
        ({"bucket": "logs", "service.account.key": "hush", "service.account.path": "/x"}, "exclude each other"),
        ({"bucket": "logs", "service.account.path": "/absent/key.json"}, "cannot be set up"),
        ({"bucket": "logs", "service.account.key": "hush, this is no JSON"}, "cannot be set up"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_without_secrets(given: dict[str, str], named: str) -> None:
    storage = gcs_storage(MemoryFileSystem())
    with pytest.raises(ConfigError) as refusal:
        storage.configure(given)
    assert named in str(refusal.value)
    assert "hush" not in str(refusal.value)
    storage.close()
