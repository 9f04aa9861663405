from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.read.deadline import Deadline, RemoteWaitOverError
from crabka.broker.tiering.read.segment_source import ChunkSource, FileSource, SegmentSource
from crabka.ports import File, FileSystem
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.tiers.filled import filled, segments_of
from tests.support.tiers.remote_reading import HeldThreads, TierWorld, directory_tier


class UndecidedStorage(InmemoryRemoteStorage):
    """Could have files, and has none."""

    def open_local(self, metadata: RemoteLogSegmentMetadata) -> File | None:
        return None


def source_of(world: TierWorld) -> SegmentSource:
    async def main() -> SegmentSource:
        return await world.tools.source(segments_of(world)[0], Deadline(100))

    return world.run(main())


def undecided(fs: FileSystem) -> RemoteStorageManager:
    return UndecidedStorage(fs)


def test_a_file_is_opened_once_for_all_who_wait() -> None:
    with TierWorld(storage=directory_tier, threads=lambda _loop: HeldThreads()) as world:
        filled(world)
        threads = world.threads
        assert isinstance(threads, HeldThreads)
        segment = segments_of(world)[0]

        async def main() -> None:
            for _ in range(2):
                with pytest.raises(RemoteWaitOverError):
                    await world.tools.source(segment, Deadline(10))
            assert threads.release() == 1
            await asyncio.sleep(0)
            for _ in range(2):
                assert isinstance(await world.tools.source(segment, Deadline(0)), FileSource)
            assert threads.waiting == []

        world.run(main())


def test_a_storage_without_files_is_never_asked_for_them() -> None:
    with TierWorld() as world:
        filled(world)
        assert not world.tools.is_local
        assert isinstance(source_of(world), ChunkSource)


def test_a_storage_that_has_no_file_is_downloaded_from() -> None:
    with TierWorld(storage=undecided) as world:
        everything = filled(world)
        assert isinstance(source_of(world), ChunkSource)
        assert not world.tools.is_local
        assert world.fetch_bytes(0) == everything


def test_a_file_that_is_too_short_is_reported() -> None:
    with TierWorld(storage=directory_tier) as world:
        filled(world)
        (directory,) = world.fs.listdir("/tier")
        name = next(name for name in world.fs.listdir(f"/tier/{directory}") if name.endswith(".log"))
        file = world.fs.open(f"/tier/{directory}/{name}")
        file.truncate(10)
        file.close()
        with pytest.raises(RemoteBackendError, match="shorter"):
            source_of(world)


def test_files_are_closed_when_nothing_is_read_any_more() -> None:
    opened: list[File] = []

    class WatchedStorage(LocalTieredStorage):
        def open_local(self, metadata: RemoteLogSegmentMetadata) -> File | None:
            file = super().open_local(metadata)
            assert file is not None
            opened.append(file)
            return file

    def watched(fs: FileSystem) -> RemoteStorageManager:
        storage = WatchedStorage(fs)
        storage.configure({"dir": "/tier"})
        return storage

    with TierWorld(storage=watched) as world:
        filled(world)
        assert isinstance(source_of(world), FileSource)
        world.tools.close()
        with pytest.raises((OSError, ValueError)):
            opened[0].pread(1, 0)
