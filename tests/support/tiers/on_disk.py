"""A planted tier as a directory that jobs read by its address."""

from __future__ import annotations

from pathlib import Path

from tests.support.tiers.planted import PlantedTier

ROOT_NAME = "kafka-tiered-storage"


def write_tier(directory: Path, *tiers: PlantedTier) -> str:
    """Write the objects of tiers below a directory; return the address."""
    (directory / ROOT_NAME).mkdir(parents=True, exist_ok=True)
    for tier in tiers:
        for name, data in tier.storage.objects.items():
            path = directory / ROOT_NAME / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return f"file://{directory}"
