"""What every manager of remote segment metadata promises, run on the one in memory and on the one over a topic."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.metadata_manager import RemoteLogMetadataManager
from crabka.remote.segments import TopicIdPartition
from crabka.testing.remote_contracts import MetadataManagerContract
from tests.support.tier_topic.manager import manager_in_thread


class TestInmemoryRemoteLogMetadataManager(MetadataManagerContract):
    @pytest.fixture
    def rlmm(self) -> InmemoryRemoteLogMetadataManager:
        return InmemoryRemoteLogMetadataManager()


class TestTopicBasedRemoteLogMetadataManager(MetadataManagerContract):
    @pytest.fixture
    def rlmm(self) -> Iterator[RemoteLogMetadataManager]:
        with manager_in_thread() as manager:
            yield manager

    def wait_until_ready(self, rlmm: RemoteLogMetadataManager, partition: TopicIdPartition) -> None:
        while not rlmm.is_ready(partition):
            threading.Event().wait(0.001)
