"""The S3 storage on a real S3 server."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.backends.s3 import s3_storage
from crabka.remote.errors import InvalidRangeError, RemoteBackendError, SegmentNotFoundError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import FaultRule
from crabka.vfs import OsFileSystem
from tests.support.tiers.segments import LocalSegment, stored_contents, write_segment
from tests.support.tiers.versitygw import ACCESS_KEY, SECRET_KEY, VersityGateway

# The first run builds the server.
pytestmark = pytest.mark.timeout(1500)

MIB = 1 << 20
WRONG_KEY = "some-other-secret"
FIVE_MIB = str(5 * MIB)
IN_PARTS = {"multipart_threshold_bytes": FIVE_MIB, "multipart_part_bytes": FIVE_MIB}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def segment(fs: MemoryFileSystem) -> LocalSegment:
    return write_segment(fs, "/local")


def open_storage(gateway: VersityGateway, fs: FileSystem, **changes: str) -> ObjectStoreStorage:
    storage = s3_storage(fs)
    storage.configure(gateway.storage_settings(**changes))
    return storage


@pytest.fixture
def storage(gateway: VersityGateway, fs: MemoryFileSystem) -> Iterator[ObjectStoreStorage]:
    storage = open_storage(gateway, fs)
    yield storage
    storage.close()


@pytest.mark.parametrize("checksum", ["sha256", "crc64nvme", "none"])
@pytest.mark.parametrize("parts", [False, True])
def test_a_segment_comes_back_as_it_was(
    gateway: VersityGateway, fs: MemoryFileSystem, checksum: str, parts: bool
) -> None:
    log = bytes(range(256)) * 4096 * (13 if parts else 1) + b"and a rest"
    segment = write_segment(fs, "/local", log=log)
    storage = open_storage(gateway, fs, checksum_algorithm=checksum, prefix="some/where", **(IN_PARTS if parts else {}))
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert stored_contents(storage, segment) == segment.contents
    assert b"".join(storage.stream_log_segment(segment.metadata, 7)) == log[7:]
    storage.delete_log_segment_data(segment.metadata)
    storage.close()
    assert gateway.keys() == set()
    assert gateway.unfinished_uploads() == []


def test_keys_are_the_names_of_a_local_tier(
    gateway: VersityGateway, storage: ObjectStoreStorage, segment: LocalSegment, fs: MemoryFileSystem
) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)
    local = LocalTieredStorage(OsFileSystem(), str(gateway.bucket_dir))
    assert stored_contents(local, segment) == segment.contents
    storage.delete_log_segment_data(segment.metadata)


def test_ranges_are_cut_and_checked(storage: ObjectStoreStorage, fs: MemoryFileSystem) -> None:
    segment = write_segment(fs, "/local", log=b"0123456789")
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert storage.fetch_log_segment(segment.metadata, 8, 100) == b"89"
    assert storage.fetch_log_segment(segment.metadata, 3, 3) == b"3"
    assert storage.fetch_log_segment(segment.metadata, 10) == b""
    with pytest.raises(InvalidRangeError):
        storage.fetch_log_segment(segment.metadata, 11)
    storage.delete_log_segment_data(segment.metadata)


def test_what_is_missing_is_not_found_and_its_deletion_is_fine(
    storage: ObjectStoreStorage, segment: LocalSegment
) -> None:
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, 0)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, len(segment.log))
    with pytest.raises(SegmentNotFoundError):
        next(storage.stream_log_segment(segment.metadata, 0))
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_index(segment.metadata, IndexType.OFFSET)
    storage.delete_log_segment_data(segment.metadata)


def test_an_absent_transaction_index_is_not_found(storage: ObjectStoreStorage, fs: MemoryFileSystem) -> None:
    segment = write_segment(fs, "/local", aborted=False)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    with pytest.raises(SegmentNotFoundError, match="TRANSACTION index"):
        storage.fetch_index(segment.metadata, IndexType.TRANSACTION)
    storage.delete_log_segment_data(segment.metadata)


def test_an_object_shorter_than_its_metadata_is_an_error(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)
    longer = replace(segment.metadata, segment_size_bytes=len(segment.log) + 10)
    for start in (0, len(segment.log) + 1):
        with pytest.raises(RemoteBackendError) as failure:
            storage.fetch_log_segment(longer, start)
        assert not failure.value.retriable
    storage.delete_log_segment_data(segment.metadata)


def test_the_listing_finds_partitions_by_the_beginning_of_their_names(
    gateway: VersityGateway, fs: MemoryFileSystem, segment: LocalSegment
) -> None:
    storage = open_storage(gateway, fs, prefix="deep/er")
    storage.copy_log_segment_data(segment.metadata, segment.data)
    expected = {(object_path(segment.metadata, kind), len(content)) for kind, content in segment.contents.items()}
    for prefix in ("", "orders", "orders.eu-1-7-"):
        found = {(f"{one.partition_directory}/{one.name}", one.size_bytes) for one in storage.list_objects(prefix)}
        assert found == expected
    assert all(one.modified_ms > 1_700_000_000_000 for one in storage.list_objects())
    assert list(storage.list_objects("orders.eu-1-8")) == []
    storage.delete_log_segment_data(segment.metadata)
    storage.close()


def test_a_local_read_error_aborts_the_upload_and_leaves_nothing(gateway: VersityGateway, fs: MemoryFileSystem) -> None:
    segment = write_segment(fs, "/local", log=b"x" * (12 * MIB))
    broken = FaultyFileSystem(fs, [FaultRule(operation="pread", path="*.log", skip=8, error=errno.EIO)])
    storage = open_storage(gateway, broken, **IN_PARTS)
    with pytest.raises(OSError, match="Input/output error"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    storage.close()
    assert gateway.keys() == set()
    assert gateway.unfinished_uploads() == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"secret_access_key": WRONG_KEY}, "SignatureDoesNotMatch"),
        ({"access_key_id": "AKIDNOBODY", "secret_access_key": WRONG_KEY}, "No user exists"),
        ({"bucket": "no-such-bucket"}, "NoSuchBucket"),
    ],
)
def test_what_the_operator_got_wrong_is_reported_and_never_taken_for_a_missing_segment(
    gateway: VersityGateway, fs: MemoryFileSystem, segment: LocalSegment, changes: dict[str, str], complaint: str
) -> None:
    storage = open_storage(gateway, fs, **changes)
    for action in (
        lambda: storage.copy_log_segment_data(segment.metadata, segment.data),
        lambda: storage.fetch_log_segment(segment.metadata, 0),
        lambda: storage.fetch_index(segment.metadata, IndexType.OFFSET),
        lambda: storage.delete_log_segment_data(segment.metadata),
        lambda: list(storage.list_objects()),
    ):
        with pytest.raises(RemoteBackendError, match=complaint) as failure:
            action()
        assert not failure.value.retriable
        reported = [str(failure.value), repr(failure.value), repr(storage), *traceback.format_exception(failure.value)]
        assert not [line for line in reported for secret in (ACCESS_KEY, SECRET_KEY, WRONG_KEY) if secret in line]
    storage.close()


def test_a_server_that_is_away_is_an_error_to_be_tried_again(
    fs: MemoryFileSystem, segment: LocalSegment, gateway: VersityGateway
) -> None:
    storage = open_storage(gateway, fs, endpoint="http://127.0.0.1:1", retry_max="1")
    with pytest.raises(RemoteBackendError, match="Connection refused") as failure:
        storage.fetch_log_segment(segment.metadata, 0)
    assert failure.value.retriable
    with pytest.raises(RemoteBackendError, match="Connection refused"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    storage.close()


def test_credentials_come_from_the_environment_where_none_are_given(
    gateway: VersityGateway, fs: MemoryFileSystem, segment: LocalSegment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    settings = gateway.storage_settings()
    del settings["access.key.id"], settings["secret.access.key"]
    storage = s3_storage(fs)
    storage.configure(settings)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    storage.delete_log_segment_data(segment.metadata)
    storage.close()


def test_a_bad_certificate_file_is_a_matter_of_configuration(gateway: VersityGateway, tmp_path: Path) -> None:
    storage = s3_storage(OsFileSystem())
    with pytest.raises(ConfigError, match=r"ca\.certificate\.path"):
        storage.configure(gateway.storage_settings(ca_certificate_path=f"{tmp_path}/absent.pem"))
    storage.close()
