from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.url import storage_settings_of_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/var/tier", {"class.name": "local", "dir": "/var/tier"}),
        ("tier", {"class.name": "local", "dir": "tier"}),
        ("file:///var/my%20tier", {"class.name": "local", "dir": "/var/my tier"}),
        ("s3://logs", {"class.name": "s3", "bucket": "logs"}),
        (
            "s3://logs/cold/data/?endpoint=http://127.0.0.1:9000&allow.http=true&region=eu-west-1",
            {
                "class.name": "s3",
                "bucket": "logs",
                "prefix": "cold/data",
                "endpoint": "http://127.0.0.1:9000",
                "allow.http": "true",
                "region": "eu-west-1",
            },
        ),
        ("gs://logs/cold", {"class.name": "gcs", "bucket": "logs", "prefix": "cold"}),
        ("az://acme/logs/cold/x", {"class.name": "azure", "account": "acme", "container": "logs", "prefix": "cold/x"}),
    ],
)
def test_addresses_become_settings_of_the_node(url: str, expected: dict[str, str]) -> None:
    prefixes = {"class.name": "remote.log.storage.manager."}
    assert storage_settings_of_url(url) == {
        prefixes.get(name, "rsm.config.") + name: value for name, value in expected.items()
    }


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://host/dir", "is no storage"),
        ("s3://", "lacks the bucket"),
        ("", "lacks the dir"),
        ("az://acme", "lacks the container"),
        ("s3://logs?colour=red", "colour is no parameter"),
        ("s3://logs?bucket=other", "bucket is no parameter"),
        ("s3://logs?retry.max=often", "retry.max"),
        ("file://machine/dir", "another machine"),
        ("s3://logs#part", "after #"),
    ],
)
def test_addresses_that_mean_nothing_are_refused(url: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        storage_settings_of_url(url)


@pytest.mark.parametrize(
    "url", ["s3://logs?secret.access.key=hush-hush", "s3://AKID:hush-hush@logs/x", "az://a/c?sas.token=hush-hush"]
)
def test_secrets_in_addresses_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="must not") as refusal:
        storage_settings_of_url(url)
    assert "hush" not in str(refusal.value)
