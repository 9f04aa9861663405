"""Tiers for readers: planted ones as a store in memory, which counts what is asked of it, or as a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.store import MemoryStore

from crabka.remote.backends.bucket import StoredObject
from crabka.remote.backends.store_errors import ObjectMissingError
from tests.support.tiers.planted import PlantedTier

# obstore starts its threads with the first call and keeps their descriptors: before any test takes stock of them.
obstore.put(MemoryStore(), "object", b"")


class MemoryTierStore:
    """A TierStore over a dictionary."""

    location = "memory"

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.asked: list[str] = []

    def get_range(self, key: str, span: range) -> memoryview:
        self.asked.append(key)
        return memoryview(self._get(key))[span.start : span.stop]

    def get(self, key: str) -> bytes:
        self.asked.append(key)
        return self._get(key)

    def list(self, directory: str = "") -> Iterator[StoredObject]:
        for key, data in self.objects.items():
            if not directory or key.startswith(f"{directory}/"):
                yield StoredObject(key, len(data), 0)

    def directories(self) -> Iterator[str]:
        yield from sorted({key.partition("/")[0] for key in self.objects})

    def _get(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectMissingError(f"read {key}") from None


def store_of(tier: PlantedTier) -> MemoryTierStore:
    """Return the objects of a planted tier as a store; later changes to either show in both."""
    return MemoryTierStore(tier.storage.objects)


def write_tier(tier: PlantedTier, directory: Path) -> str:
    """Write the objects of a planted tier to a directory and return its address."""
    for name, data in tier.storage.objects.items():
        path = directory / "kafka-tiered-storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return f"file://{directory}"
