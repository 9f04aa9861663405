from __future__ import annotations

from datetime import timedelta

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.settings import StorageSettings
from crabka.remote.backends.transfer import TRANSFER_KEYS, HttpOptions, UploadLimits
from crabka.testing import MemoryFileSystem
from crabka.vfs import write_atomic

MIB = 1 << 20


def settings(**given: str) -> StorageSettings:
    return StorageSettings(TRANSFER_KEYS, {name.replace("_", "."): value for name, value in given.items()})


def test_defaults() -> None:
    limits = UploadLimits.from_settings(settings())
    assert (limits.threshold_bytes, limits.part_bytes, limits.parts_in_flight) == (100 * MIB, 16 * MIB, 4)
    assert limits.memory_bytes == 256 * MIB
    assert limits == UploadLimits()
    assert HttpOptions.from_settings(settings(), MemoryFileSystem()) == HttpOptions()


def test_the_memory_of_uploads_can_be_set_but_holds_a_part() -> None:
    assert UploadLimits.from_settings(settings(upload_memory_bytes=str(5 * MIB))).memory_bytes == 5 * MIB
    with pytest.raises(ConfigError, match=r"upload\.memory\.bytes"):
        UploadLimits.from_settings(settings(upload_memory_bytes=str(5 * MIB - 1)))


@pytest.mark.parametrize("size", ["0", "1", str(5 * MIB - 1), "-5", "x"])
def test_parts_that_no_store_takes_are_refused(size: str) -> None:
    with pytest.raises(ConfigError, match=r"multipart\.part\.bytes"):
        UploadLimits.from_settings(settings(multipart_part_bytes=size))


def test_such_parts_are_refused_in_code_too() -> None:
    for size in (0, 5 * MIB - 1):
        with pytest.raises(ConfigError, match=r"multipart\.part\.bytes"):
            UploadLimits(part_bytes=size)
    assert UploadLimits(part_bytes=5 * MIB).part_bytes == 5 * MIB


def test_patience_becomes_that_of_obstore() -> None:
    given = {"request_timeout_ms": "1500", "connect_timeout_ms": "200", "retry_max": "2", "retry_timeout_ms": "9000"}
    pauses = {"retry_backoff_ms": "30", "retry_backoff_max_ms": "700"}
    http = HttpOptions.from_settings(settings(allow_http="true", **given, **pauses), MemoryFileSystem())
    assert http.client_options() == {
        "allow_http": True,
        "timeout": timedelta(milliseconds=1500),
        "connect_timeout": timedelta(milliseconds=200),
        "user_agent": "crabka",
    }
    assert http.retry_config() == {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=9),
        "backoff": {
            "init_backoff": timedelta(milliseconds=30),
            "max_backoff": timedelta(milliseconds=700),
            "base": 2,
        },
    }


def test_certificates_are_read_from_their_file() -> None:
    fs = MemoryFileSystem()
    write_atomic(fs, "/ca.pem", b"-----BEGIN CERTIFICATE-----")
    http = HttpOptions.from_settings(settings(ca_certificate_path="/ca.pem"), fs)
    assert http.client_options()["root_certificate"] == b"-----BEGIN CERTIFICATE-----"
    with pytest.raises(ConfigError, match=r"ca\.certificate\.path"):
        HttpOptions.from_settings(settings(ca_certificate_path="/absent.pem"), fs)


def test_unencrypted_requests_need_leave() -> None:
    HttpOptions().require_allowed(None)
    HttpOptions().require_allowed("https://store")
    HttpOptions(allow_http=True).require_allowed("http://store")
    with pytest.raises(ConfigError, match=r"allow\.http"):
        HttpOptions().require_allowed("http://store")
    with pytest.raises(ConfigError, match="endpoint"):
        HttpOptions(allow_http=True).require_allowed("store:9000")
