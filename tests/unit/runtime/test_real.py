from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from crabka.log.segment.descriptors import LogDescriptors
from crabka.runtime import real, real_runtime
from crabka.vfs import read_file, write_atomic
from crabka.vfs.syncing import sync_together

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from crabka.ports import Threads


def test_draws_are_repeatable_with_a_seed_and_differ_without() -> None:
    assert real_runtime(7).new_uuid() == real_runtime(7).new_uuid()
    assert real_runtime().new_uuid() != real_runtime().new_uuid()


def test_ports_work_together(tmp_path: Path) -> None:
    runtime = real_runtime(max_workers=1)

    async def main() -> bytes:
        path = f"{tmp_path}/file"
        await runtime.threads.submit(write_atomic, runtime.fs, path, b"content")
        return await runtime.threads.submit(read_file, runtime.fs, path)

    assert asyncio.run(main()) == b"content"
    runtime.threads.close()


def test_slow_peers_occupy_a_bounded_part_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a burst of cold reads keeps the sync of the metadata waiting."""
    given: list[Threads] = []
    monkeypatch.setattr(real, "AsyncioNetwork", given.append)
    runtime = real_runtime(max_workers=1)
    (threads,) = given
    gate = threading.Event()

    async def main() -> tuple[int, int]:
        reads = [threads.submit(gate.wait) for _ in range(real.READS_AT_ONCE + 5)]
        sync = runtime.threads.submit(len, "sync")
        gate.set()
        await sync
        before = sum(read.done() for read in reads)
        await asyncio.gather(*reads)
        return before, len(reads)

    before, reads = asyncio.run(main())
    assert before <= real.READS_AT_ONCE < reads
    runtime.threads.close()


def test_segments_that_make_room_are_synced_together() -> None:
    runtime = real_runtime()
    assert LogDescriptors(runtime.open_file_limit, runtime.sync_together).active._sync_files is sync_together
    runtime.threads.close()
