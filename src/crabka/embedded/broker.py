"""`Broker`: a node on a thread of its own, or in a child process, as a context manager.

    with Broker() as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})

Without `data_dir` the data lies in a temporary directory, which is removed with the broker. `async with` works too and
does not block the loop.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Self

from crabka.config.listeners import parse_address
from crabka.config.presets import tiered_node_properties
from crabka.embedded.in_process import ProcessNode
from crabka.embedded.in_thread import ThreadNode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class Broker:
    """A one-node broker. Start it by `with`, `async with`, or `start` and `stop`."""

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, str] | None = None,
        tier: str | PathLike[str] | None = None,
        process: bool = False,
    ) -> None:
        """Describe the broker; `start` starts it.

        `settings` are Kafka's properties. `tier` receives segments of topics with remote.storage.enable: a directory
        or an address such as s3://bucket/prefix. `process` runs it in a child process, away from this one's
        interpreter lock.
        """
        self._data_dir = data_dir
        self._listen = listen
        self._settings = ({} if tier is None else _tier_settings(tier)) | dict(settings or {})
        self._kind: type[ThreadNode | ProcessNode] = ProcessNode if process else ThreadNode
        self._temporary_dir: str | None = None
        self._node: ThreadNode | ProcessNode | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port for clients. Raises RuntimeError unless the broker runs."""
        if self._node is None:
            raise RuntimeError("the broker is not running: use it as a context manager or call start()")
        return self._node.bootstrap_servers

    def start(self) -> Self:
        """Start and wait until requests are served. Raises ConfigError and StorageError from the node."""
        if self._node is not None:
            raise RuntimeError("the broker is running already")
        host, port = parse_address(self._listen)
        data_dir = self._data_dir
        if data_dir is None:
            data_dir = self._temporary_dir = tempfile.mkdtemp(prefix="crabka-")
        try:
            self._node = self._kind.start(data_dir, host, port, self._settings)
        except BaseException:
            self._remove_temporary_dir()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly and wait; a temporary data directory is removed. Stopping twice is allowed."""
        node, self._node = self._node, None
        try:
            if node is not None:
                node.stop()
        finally:
            self._remove_temporary_dir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _remove_temporary_dir(self) -> None:
        if self._temporary_dir is not None:
            shutil.rmtree(self._temporary_dir, ignore_errors=True)
            self._temporary_dir = None


def _tier_settings(tier: str | PathLike[str]) -> dict[str, str]:
    # The libraries of object stores are loaded only with a tier.
    from crabka.remote.backends.url import storage_settings_of_url

    place = fspath(tier)
    return tiered_node_properties(storage_settings_of_url(place if "://" in place else str(Path(place).resolve())))
