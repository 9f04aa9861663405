"""The ports of one life of a node in this process: they can end at any moment, as those of a killed process do.

After `cut_off` nothing of the node reaches the disk by a new name or the network by a new connection; what it has in
the page cache by then stays, as after `kill -9`. `bury` ends what is left of it, so that the next life finds free locks
and ports.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from crabka.embedded.nodes.forks import Forgetter, close_sockets_of
from crabka.runtime import real_runtime

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from crabka.ports import (
        Clock,
        DirectWriter,
        DiskUsage,
        File,
        FileStat,
        FileSystem,
        Listener,
        Network,
        Runtime,
        Threads,
    )

# A task that is cancelled may wait once more while it cleans up, for something that does not come any more.
BURIAL_TURNS: Final = 40


class Life:
    """One life of a node, from its start to its stop or kill. Belongs to the loop that runs the node."""

    def __init__(
        self,
        network: Callable[[Network], Network] | None = None,
        *,
        note_opened: Callable[[asyncio.BaseTransport], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        """`network` may put a network of the caller between the node and the machine's.

        `note_opened` is called with every connection that the node opens. Without a clock it has the machine's.
        """
        real = real_runtime()
        self._fs = LifeFileSystem(real.fs)
        self._network = LifeNetwork(real.network, note_opened)
        self._pools: list[Threads] = [real.threads]
        make_pool = real.make_pool
        assert make_pool is not None  # noqa: S101 - the real runtime has one

        def tracked_pool(size: int, name: str) -> Threads:
            pool = make_pool(size, name)
            self._pools.append(pool)
            return pool

        wrapped: Network = self._network if network is None else network(self._network)
        self._forgetter = Forgetter(self._forget)
        self.runtime: Runtime = replace(
            real, clock=clock or real.clock, fs=self._fs, network=wrapped, make_pool=tracked_pool
        )

    def close(self) -> None:
        """End the threads of a node that has stopped."""
        self.runtime.threads.close()

    def _forget(self) -> None:
        """Let go of everything, in a fork."""
        self._fs.forget()
        close_sockets_of(self._network.ports)

    def cut_off(self) -> None:
        """Leave the node without disk, network and threads, in the middle of whatever it does."""
        self._fs.cut_off()
        self._network.cut_off()
        for pool in self._pools:
            pool.close(wait=False)

    async def bury(self) -> None:
        """End all other tasks of the loop, then the threads, then give descriptors and locks back."""
        loop = asyncio.get_running_loop()
        # What the dead complain of is of no interest.
        loop.set_exception_handler(lambda _loop, _context: None)
        me = asyncio.current_task()
        for _ in range(BURIAL_TURNS):
            left = [task for task in asyncio.all_tasks() if task is not me]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        for pool in self._pools:
            pool.close()
        self._fs.close_files()


class LifeFileSystem:
    """The file system of one life; remembers the files that it opened."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._is_cut_off = False
        self._opening = threading.Lock()
        self._files: weakref.WeakSet[File] = weakref.WeakSet()

    def cut_off(self) -> None:
        """Refuse everything from now on."""
        with self._opening:
            self._is_cut_off = True

    def close_files(self) -> None:
        """Close the files that are open still. No thread may use them any more."""
        with self._opening:
            files = list(self._files)
        for file in files:
            file.close()

    def forget(self) -> None:
        """Close the files in a fork; takes no lock."""
        for file in list(self._files):
            file.close()

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> File:
        """Open a file."""
        with self._opening:
            file = self._alive.open(path, create=create, read_only=read_only, exclusive=exclusive)
            self._files.add(file)
        return file

    def lock(self, path: str) -> File:
        """Take an exclusive lock on a file."""
        with self._opening:
            file = self._alive.lock(path)
            self._files.add(file)
        return file

    def stat(self, path: str) -> FileStat:
        """Return size, time of last change and kind."""
        return self._alive.stat(path)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        return self._fs.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return self._alive.listdir(path)

    def makedirs(self, path: str) -> None:
        """Create a directory with its parents."""
        self._alive.makedirs(path)

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory in one step."""
        self._alive.rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._alive.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._alive.rmdir(path)

    def rmtree(self, path: str) -> None:
        """Remove a directory with all its content."""
        self._alive.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._alive.fsync_dir(path)

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space of the file system that holds `path`."""
        return self._alive.disk_usage(path)

    @property
    def _alive(self) -> FileSystem:
        if self._is_cut_off:
            raise OSError(errno.EIO, f"the node was killed: {os.strerror(errno.EIO)}")
        return self._fs


class LifeNetwork:
    """The network of one life; remembers its listeners and the connections that it opened."""

    def __init__(self, network: Network, note_opened: Callable[[asyncio.BaseTransport], None]) -> None:
        self._network = network
        self._note_opened = note_opened
        self._is_cut_off = False
        self._listeners: list[Listener] = []
        self._opened: weakref.WeakSet[asyncio.BaseTransport] = weakref.WeakSet()

    def cut_off(self) -> None:
        """Close listeners and connections at once, and refuse new ones."""
        self._is_cut_off = True
        for listener in self._listeners:
            listener.close()
        for transport in list(self._opened):
            abort(transport)

    @property
    def ports(self) -> set[int]:
        """The ports that it listens on."""
        return {listener.port for listener in self._listeners}

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> Listener:
        """Accept connections on host:port."""
        self._check()
        listener = await self._network.listen(factory, host, port, **options)
        self._listeners.append(listener)
        return listener

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection."""
        self._check()
        transport, protocol = await self._network.connect(factory, host, port, tls=tls)
        self._opened.add(transport)
        self._note_opened(transport)
        if self._is_cut_off:
            abort(transport)
        return transport, protocol

    def direct_writer(self, transport: asyncio.BaseTransport) -> DirectWriter | None:
        """Return a writer for a connection, None if it can only be written through its transport."""
        return self._network.direct_writer(transport)

    def _check(self) -> None:
        if self._is_cut_off:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))


def abort(transport: Any) -> None:
    """Close a connection without writing what waits."""
    getattr(transport, "abort", transport.close)()
