"""Bounded caches of a node's logs: open files of sealed segments and their loaded indexes."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from crabka.ports import File

V = TypeVar("V")


class Handle:
    """An open file that closes with its last reference.

    A plan for a read may outlive its file's place in the cache, or be carried out in a thread: the reference
    keeps the descriptor from being closed and reused below it.
    """

    __slots__ = ("file",)

    def __init__(self, file: File) -> None:
        self.file = file

    def __del__(self) -> None:
        self.file.close()


class LruCache(Generic[V]):
    """The most recently used values by path; the oldest is dropped above `capacity`."""

    __slots__ = ("_capacity", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[str, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str, load: Callable[[str], V]) -> V:
        """Return the value of a path, loaded if it is not here."""
        value = self._values.get(path)
        if value is None:
            value = load(path)
            self.put(path, value)
        else:
            self._touch(path)
        return value

    def find(self, path: str) -> V | None:
        """Return the value of a path if it is here."""
        value = self._values.get(path)
        if value is not None:
            self._touch(path)
        return value

    def put(self, path: str, value: V) -> None:
        """Keep a value as the most recently used one."""
        self._values[path] = value
        self._touch(path)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def forget(self, path: str) -> None:
        """Drop a value; unknown paths are fine."""
        self._values.pop(path, None)

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()

    def _touch(self, path: str) -> None:
        # Lookups by time run in threads: each step is atomic, but another may have dropped the path in between.
        with contextlib.suppress(KeyError):
            self._values.move_to_end(path)
