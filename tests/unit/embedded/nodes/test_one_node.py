"""From settings to a node that can be started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crabka.embedded.nodes.one_node import one_node_config, open_node
from crabka.errors import ConfigError
from crabka.runtime import real_runtime


def test_directory_is_formatted_once(tmp_path: Path) -> None:
    config = one_node_config(str(tmp_path), "127.0.0.1", 0, {})
    runtime = real_runtime()

    async def open_twice() -> None:
        open_node(runtime, config)
        identity = (tmp_path / "meta.properties").read_text()
        open_node(runtime, config)
        assert (tmp_path / "meta.properties").read_text() == identity

    asyncio.run(open_twice())
    runtime.threads.close()


@pytest.mark.parametrize("name", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"])
def test_a_node_of_a_cluster_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"Cluster\(nodes=3\)"):
        one_node_config("data", "127.0.0.1", 0, {name: "1@h:9093,2@h:9093"})
