"""What every remote storage promises, run on directories and on the storages of the test kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from crabka.remote.backends.file import file_storage
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.backends.object_store import STREAM_PIECE_BYTES, ObjectStoreStorage
from crabka.testing import FaultyStorageManager, InmemoryRemoteStorage, MemoryFileSystem
from crabka.testing.remote_contracts import LocalSegmentFiles, StorageManagerContract


@pytest.fixture(scope="module")
def obstore_runtime() -> None:
    """Start what obstore keeps for the whole process, so that no test seems to leak it."""
    obstore.put(MemoryStore(), "object", b"")


class TestInmemoryRemoteStorage(StorageManagerContract):
    @pytest.fixture
    def storage(self) -> InmemoryRemoteStorage:
        return InmemoryRemoteStorage()


class TestStorageWithCustomMetadata(StorageManagerContract):
    """A storage that needs its custom metadata back, on a file system in memory."""

    @pytest.fixture
    def fs(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def storage(self, fs: MemoryFileSystem) -> InmemoryRemoteStorage:
        return InmemoryRemoteStorage(fs, wants_custom_metadata=True)

    @pytest.fixture
    def files(self, fs: MemoryFileSystem) -> LocalSegmentFiles:
        return LocalSegmentFiles(fs, "/local")


class TestFaultyStorageWithoutFaults(StorageManagerContract):
    @pytest.fixture
    def storage(self) -> FaultyStorageManager:
        return FaultyStorageManager(InmemoryRemoteStorage())


class TestLocalTieredStorage(StorageManagerContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> LocalTieredStorage:
        storage = LocalTieredStorage()
        storage.configure({"dir": str(tmp_path)})
        return storage


class TestLocalTieredStorageOnSimulatedDisk(StorageManagerContract):
    @pytest.fixture
    def fs(self) -> MemoryFileSystem:
        fs = MemoryFileSystem()
        fs.makedirs("/tier")
        return fs

    @pytest.fixture
    def storage(self, fs: MemoryFileSystem) -> LocalTieredStorage:
        return LocalTieredStorage(fs, "/tier")

    @pytest.fixture
    def files(self, fs: MemoryFileSystem) -> LocalSegmentFiles:
        return LocalSegmentFiles(fs, "/local")


@pytest.mark.usefixtures("obstore_runtime")
class TestFileStorage(StorageManagerContract):
    large_segment_bytes = STREAM_PIECE_BYTES + 17

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[ObjectStoreStorage]:
        storage = file_storage()
        storage.configure({"dir": str(tmp_path)})
        yield storage
        storage.close()
