"""The ports of one simulated node, put together."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from crabka.ports import Runtime
from crabka.testing.inline_threads import InlineThreads
from crabka.testing.simulated_clock import SimulatedClock

if TYPE_CHECKING:
    import asyncio

    from crabka.ports import FileSystem, Network

# Long enough that an fsync overlaps with requests, short against every timeout of a broker.
DEFAULT_THREAD_DELAY_MS = 5.0


def simulated_runtime(
    loop: asyncio.AbstractEventLoop,
    rng: random.Random,
    host: Network,
    fs: FileSystem,
    *,
    skew_ms: int = 0,
    max_thread_delay_ms: float = DEFAULT_THREAD_DELAY_MS,
) -> Runtime:
    """Return the ports of a node on a simulated host and disk.

    The node gets generators of its own, seeded from `rng`, so that its draws do not depend on those of other nodes.
    To kill the node: cancel its tasks, `threads.kill()`, `network.crash(host)`, `fs.crash()`.
    """
    return Runtime(
        clock=SimulatedClock(loop, skew_ms),
        rng=random.Random(rng.getrandbits(64)),
        threads=InlineThreads(loop, random.Random(rng.getrandbits(64)), max_delay_ms=max_thread_delay_ms),
        fs=fs,
        network=host,
    )
