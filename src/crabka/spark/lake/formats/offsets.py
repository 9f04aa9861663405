"""The position of a table: the next offset of every partition, as tables keep it, and which steps a commit may do.

Pure. A table follows one topic, by its id: a topic that is deleted and made again is another topic. The offsets are
committed together with the files that hold the rows below them, so the two never disagree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum, auto

from crabka.errors import ConfigError
from crabka.spark.lake.errors import LakeError
from crabka.spark.plan.history.witnesses import Chain, Chains, chains_from_json, chains_to_json

Offsets = Mapping[int, int]
"""The next offset by partition of the table's topic."""


class Settlement(Enum):
    """The outcome of a commit that was reported as failed."""

    LANDED = auto()  # it is in the table after all
    RETRY = auto()  # the table changed, but not in what this commit builds on
    SUPERSEDED = auto()  # another writer committed these offsets


def encode_offsets(offsets: Offsets) -> str:
    """Return offsets as JSON with sorted partitions."""
    return json.dumps({str(partition): offsets[partition] for partition in sorted(offsets)}, separators=(",", ":"))


def decode_offsets(text: str) -> dict[int, int]:
    """Read what encode_offsets wrote. Raises LakeError."""
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise LakeError(f"The table's offsets {text[:100]!r} cannot be read") from error


def encode_witnesses(witnesses: Chains) -> str:
    """Return what is remembered of batches as JSON."""
    return json.dumps(chains_to_json(witnesses), separators=(",", ":"))


def decode_witnesses(text: str | None) -> dict[int, Chain]:
    """Read what encode_witnesses wrote; tables of earlier versions have none. Raises LakeError."""
    if text is None:
        return {}
    try:
        return chains_from_json(json.loads(text))
    except (ValueError, ConfigError) as error:
        raise LakeError(f"The table's witnesses {text[:100]!r} cannot be read") from error


def app_id(topic_id: str, partition: int) -> str:
    """Return the name under which Delta keeps the next offset of a partition."""
    return f"crabka:{topic_id}:{partition}"


def check_step(before: Offsets, after: Offsets) -> None:
    """Raise LakeError unless a commit moves forward and forgets no partition."""
    for partition, offset in before.items():
        if partition not in after:
            raise LakeError(f"A commit lacks partition {partition}")
        if after[partition] < offset:
            raise LakeError(f"A commit moves partition {partition} back from {offset} to {after[partition]}")
    if sorted(after) != list(range(len(after))):
        raise LakeError(f"A commit knows the partitions {sorted(after)}, which are not all from 0 on")


def check_rewind(before: Offsets, after: Offsets) -> None:
    """Raise LakeError unless a rewind moves no partition forward and forgets none."""
    if before.keys() != after.keys() or any(after[partition] > offset for partition, offset in before.items()):
        raise LakeError(f"A rewind moves {dict(before)} to {dict(after)}")


def settle(before: Offsets, current: Offsets, ours: Iterable[str], live: Iterable[str]) -> Settlement:
    """Decide the outcome of a commit of the files `ours`, from the table as it is now.

    A commit without files that landed cannot be distinguished from one of another writer: both leave nothing to do.
    """
    present = set(ours) & set(live)
    if present:
        return Settlement.LANDED
    return Settlement.RETRY if dict(current) == dict(before) else Settlement.SUPERSEDED


def lag(committed: Offsets, ends: Offsets) -> dict[int, int]:
    """Return how many offsets each partition's table is behind its log."""
    return {partition: max(0, end - committed.get(partition, 0)) for partition, end in sorted(ends.items())}
