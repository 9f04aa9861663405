"""From a data directory to a running node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from crabka.embedded.one_node import start_one_node
from crabka.runtime import real_runtime


def test_directory_is_formatted_once_and_unknown_settings_are_warned_of(tmp_path: Path) -> None:
    async def start_and_stop() -> list[str]:
        runtime = real_runtime()
        node, warnings = await start_one_node(runtime, str(tmp_path), "127.0.0.1", 0, {"num.partition": "3"})
        await node.stop()
        runtime.threads.close()
        return warnings

    [warning] = asyncio.run(start_and_stop())
    assert "num.partitions" in warning
    identity = (tmp_path / "meta.properties").read_text()
    asyncio.run(start_and_stop())
    assert (tmp_path / "meta.properties").read_text() == identity
