from __future__ import annotations

import logging

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.s3 import S3Config, s3_storage
from crabka.remote.backends.transfer import HttpOptions, UploadLimits
from crabka.testing import MemoryFileSystem

SECRETS = {"access.key.id": "AKIDHUSH", "secret.access.key": "hush/secret", "session.token": "hush-token"}


def config(**given: str) -> S3Config:
    settings = {"bucket": "logs"} | {name.replace("_", "."): value for name, value in given.items()}
    return S3Config.from_settings(settings, MemoryFileSystem())


def test_a_bucket_is_enough() -> None:
    assert config() == S3Config(bucket="logs")
    assert S3Config(bucket="logs").limits == UploadLimits(threshold_bytes=100 << 20, part_bytes=16 << 20)


def test_all_settings_arrive() -> None:
    found = config(
        prefix="cold",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        allow_http="true",
        virtual_hosted_style="true",
        checksum_algorithm="crc64nvme",
        multipart_part_bytes=str(8 << 20),
        **SECRETS,
    )
    assert found == S3Config(
        bucket="logs",
        prefix="cold",
        region="eu-west-1",
        endpoint="http://127.0.0.1:9000",
        access_key_id="AKIDHUSH",
        secret_access_key="hush/secret",
        session_token="hush-token",
        virtual_hosted_style=True,
        checksum_algorithm="crc64nvme",
        limits=UploadLimits(part_bytes=8 << 20),
        http=HttpOptions(allow_http=True),
    )


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"bucket": ""}, "bucket"),
        ({"buckets": "x"}, "buckets"),
        ({"access_key_id": "AKIDHUSH"}, "secret.access.key"),
        ({"secret_access_key": "hush/secret"}, "access.key.id"),
        ({"session_token": "hush-token"}, "session.token"),
        ({"endpoint": "http://127.0.0.1:9000"}, "allow.http"),
        ({"endpoint": "127.0.0.1:9000"}, "endpoint"),
        ({"checksum_algorithm": "md5"}, "checksum.algorithm"),
        ({"multipart_part_bytes": "0"}, "multipart.part.bytes"),
        ({"multipart_part_bytes": "5242879"}, "multipart.part.bytes"),
        ({"allow_http": "yes"}, "allow.http"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_without_secrets(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        config(**given)
    assert named in str(refusal.value)
    assert "hush" not in str(refusal.value).lower()


def test_nothing_shows_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = s3_storage(MemoryFileSystem())
    storage.configure({"bucket": "logs", "prefix": "cold"} | SECRETS)
    found = S3Config.from_settings({"bucket": "logs"} | SECRETS, MemoryFileSystem())
    bucket = found.open()
    shown = [
        repr(found),
        str(found),
        f"{found}",
        repr(storage),
        str(storage),
        repr(bucket),
        repr(found.http),
        caplog.text,
    ]
    assert not [text for text in shown if "hush" in text.lower()]
    assert repr(storage) == "ObjectStoreStorage(Bucket('s3://logs/cold'))"
    assert set(found.secrets) == set(SECRETS.values())
    storage.close()


def test_a_certificate_that_is_none_is_refused() -> None:
    fs = MemoryFileSystem()
    file = fs.open("/ca.pem", create=True)
    file.pwritev([b"-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n"], 0)
    file.close()
    storage = s3_storage(fs)
    with pytest.raises(ConfigError, match="S3 storage cannot be set up"):
        storage.configure({"bucket": "logs", "ca.certificate.path": "/ca.pem"})
    storage.close()
