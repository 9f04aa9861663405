"""What a storage need not say."""

from __future__ import annotations

from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage


class _Plain(InmemoryRemoteStorage):
    configure = RemoteStorageManager.configure
    close = RemoteStorageManager.close


def test_a_storage_without_settings_and_connections_needs_no_code_for_them() -> None:
    storage = _Plain()
    storage.configure({"anything": "is fine"})
    storage.close()
