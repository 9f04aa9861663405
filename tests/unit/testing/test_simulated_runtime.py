from __future__ import annotations

import random

from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from crabka.testing.simulated_clock import EPOCH_MS
from crabka.vfs import read_file, write_atomic


def test_ports_work_together_in_virtual_time() -> None:
    loop = VirtualTimeLoop()
    network = SimulatedNetwork(loop, random.Random(1))
    runtime = simulated_runtime(loop, random.Random(2), network.host("a"), MemoryFileSystem(), skew_ms=77)

    async def main() -> bytes:
        assert runtime.clock.now_ms() == EPOCH_MS + 77
        await runtime.threads.submit(write_atomic, runtime.fs, "/file", b"content")
        return await runtime.threads.submit(read_file, runtime.fs, "/file")

    assert loop.run(main()) == b"content"


def test_a_nodes_draws_depend_on_the_seed_alone() -> None:
    loop = VirtualTimeLoop()
    host = SimulatedNetwork(loop, random.Random(1)).host("a")

    def identifiers(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [str(simulated_runtime(loop, rng, host, MemoryFileSystem()).new_uuid()) for _ in range(2)]

    assert identifiers(1) == identifiers(1)
    assert len({*identifiers(1), *identifiers(2)}) == 4
    loop.close()
