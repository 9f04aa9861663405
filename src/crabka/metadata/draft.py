"""Copy-on-write access to a mapping of an image.

A delta reads through to the image and copies the mapping once, shallowly, at the first change. An untouched mapping
is handed on as it is, so that applying a small delta to a big image costs one dict copy at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class MappingDraft(Generic[K, V]):
    """A mapping under change; the base is never modified."""

    __slots__ = ("_base", "_copy")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._copy: dict[K, V] | None = None

    @property
    def current(self) -> Mapping[K, V]:
        """The mapping with all changes so far."""
        return self._base if self._copy is None else self._copy

    def get(self, key: K) -> V | None:
        """Return the current value of a key."""
        return self.current.get(key)

    def set(self, key: K, value: V) -> None:
        """Add or replace a value."""
        self._writable()[key] = value

    def remove(self, key: K) -> V | None:
        """Remove a key if it is there; return its value."""
        if key not in self.current:
            return None
        return self._writable().pop(key)

    def _writable(self) -> dict[K, V]:
        if self._copy is None:
            self._copy = dict(self._base)
        return self._copy
