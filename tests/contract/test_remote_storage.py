"""What every remote storage promises, run on those of the test kit."""

from __future__ import annotations

import pytest

from crabka.testing import FaultyStorageManager, InmemoryRemoteStorage, MemoryFileSystem
from crabka.testing.remote_contracts import LocalSegmentFiles, StorageManagerContract


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
