from __future__ import annotations

from crabka.testing import MemoryFileSystem
from tests.support.nodes.sim_node import SimNode
from tests.support.tiers.remote_reading import TIERED_SETTINGS, NodeTier, tiered_topic


def test_the_settings_of_the_node_hold() -> None:
    settings = {
        **TIERED_SETTINGS,
        "remote.log.reader.threads": "3",
        "remote.log.reader.max.pending.tasks": "5",
        "crabka.remote.chunk.cache.bytes": "9000000",
    }
    with SimNode(settings) as node:
        reads = node.context.remote_reads
        assert reads is not None
        tools = reads._tools
        assert (tools.pool._thread_count, tools.pool._max_pending) == (3, 5)
        assert tools.chunks._capacity_bytes == 9_000_000


def test_indexes_lie_in_the_first_log_dir() -> None:
    with SimNode(TIERED_SETTINGS, log_dirs=("/d1", "/d2")) as node:
        tiered_topic(node, "t")
        tier = NodeTier(node)
        tier.tier("t")
        node.fetch("t", 0)
        assert isinstance(node.fs, MemoryFileSystem)
        names = node.fs.listdir("/d1/remote-log-index-cache")
        assert names
        assert all(name.endswith(".index") for name in names)
        tier.close()


def test_without_a_tier_there_is_nothing_to_read_with() -> None:
    with SimNode() as node:
        assert node.context.remote_reads is None
