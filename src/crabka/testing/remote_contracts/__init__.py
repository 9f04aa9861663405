"""Contracts of plug-ins of the remote tier, as pytest suites: subclass one and define its fixture.

class TestMyStorage(StorageManagerContract):
    @pytest.fixture
    def storage(self, tmp_path):
        return MyStorage(tmp_path)
"""

from __future__ import annotations

from crabka.testing.remote_contracts.metadata_manager import CONTRACT_PARTITIONS, MetadataManagerContract
from crabka.testing.remote_contracts.storage_manager import LocalSegmentFiles, StorageManagerContract

__all__ = ["CONTRACT_PARTITIONS", "LocalSegmentFiles", "MetadataManagerContract", "StorageManagerContract"]
