"""What every manager of remote segment metadata promises, run on the one in memory, also behind a swap."""

from __future__ import annotations

import pytest

from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.switching import NotReadyRlmm, SwappableRlmm
from crabka.testing.remote_contracts import MetadataManagerContract


class TestInmemoryRemoteLogMetadataManager(MetadataManagerContract):
    @pytest.fixture
    def rlmm(self) -> InmemoryRemoteLogMetadataManager:
        return InmemoryRemoteLogMetadataManager()


class TestSwappableRlmm(MetadataManagerContract):
    @pytest.fixture
    def rlmm(self) -> SwappableRlmm:
        rlmm = SwappableRlmm(NotReadyRlmm())
        rlmm.swap(InmemoryRemoteLogMetadataManager())
        return rlmm
