from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.file import file_storage
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.errors import RemoteBackendError
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from crabka.vfs import OsFileSystem
from tests.support.tiers.object_stores import SMALL_PARTS
from tests.support.tiers.segments import golden_segments, golden_tier, stored_contents, write_segment


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[ObjectStoreStorage]:
    storage = file_storage(limits=SMALL_PARTS)
    storage.configure({"dir": f"{tmp_path}/tier"})
    yield storage
    storage.close()


@pytest.mark.parametrize("size", [100, 12 << 20])
def test_the_tier_is_the_one_of_local_tiered_storage(storage: ObjectStoreStorage, tmp_path: Path, size: int) -> None:
    segment = write_segment(OsFileSystem(), f"{tmp_path}/local", log=b"x" * size)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    local = LocalTieredStorage()
    local.configure({"dir": f"{tmp_path}/tier"})
    assert stored_contents(local, segment) == segment.contents
    assert sorted(found[:3] for found in storage.list_objects()) == sorted(found[:3] for found in local.list_objects())
    storage.delete_log_segment_data(segment.metadata)
    assert list((tmp_path / "tier" / "kafka-tiered-storage").iterdir()) == []


def test_a_tier_of_kafka_is_read() -> None:
    storage = file_storage()
    storage.configure({"dir": str(golden_tier("single"))})
    for metadata in golden_segments("single"):
        assert len(storage.fetch_log_segment(metadata, 0)) == metadata.segment_size_bytes
    storage.close()


def test_a_copy_that_cannot_be_made_durable_is_taken_back(tmp_path: Path) -> None:
    segment = write_segment(OsFileSystem(), f"{tmp_path}/local")
    storage = file_storage(disk=FaultyFileSystem(OsFileSystem(), [FaultRule(operation="fsync", path="*.log", error=5)]))
    storage.configure({"dir": f"{tmp_path}/tier"})
    with pytest.raises(RemoteBackendError, match="durable"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert list(storage.list_objects()) == []
    storage.close()


def test_the_setting_is_checked() -> None:
    storage = file_storage()
    with pytest.raises(ConfigError, match="dir"):
        storage.configure({})
    with pytest.raises(ConfigError, match="bucket"):
        storage.configure({"dir": "x", "bucket": "y"})
    storage.close()
