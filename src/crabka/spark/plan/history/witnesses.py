"""Witnesses of a log's history: facts about batches that were read, to detect that a log was cut.

Pure. An offset alone does not say which record it was: a log that was restored from an older copy and filled again has
other records under the same offsets. A witness is a batch that was read: its offsets, leader epoch, checksum, largest
timestamp and number of records. The checksum covers the records, so a log that was written anew does not repeat it.

A chain holds the witnesses of one partition in the order of their offsets. The last one answers whether the history
is still the same; earlier ones say up to where. Chains are thinned: near the end they are dense, far from it sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from crabka.errors import ConfigError
from crabka.records.header import DELETE_HORIZON_FLAG, BatchHeader

MAX_CHAIN: Final = 12
# Together the chains of a table stay small, however many partitions it has.
_MAX_WITNESSES: Final = 2_000
_MIN_CHAIN: Final = 2
# Where within the offsets of one read witnesses are taken, beside its end.
_SAMPLES: Final = ((1, 4), (1, 2), (3, 4), (7, 8))
_SAMPLED_PARTITIONS: Final = 200


class BatchWitness(NamedTuple):
    """A batch as it was when it was read."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    max_timestamp_ms: int
    records_count: int

    @classmethod
    def of(cls, header: BatchHeader) -> BatchWitness:
        """Return the witness of a batch."""
        return cls(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            header.crc,
            header.max_timestamp,
            header.records_count,
        )


Chain = tuple[BatchWitness, ...]
Chains = Mapping[int, Chain]
"""Chains by the partitions of one topic."""


class HistoryVerdict(Enum):
    """The result of comparing a witness with the log."""

    SAME = auto()
    DIFFERENT = auto()
    # The batch is not there to be compared: deleted by retention, or changed or removed by compaction.
    UNKNOWN = auto()


def judge(witness: BatchWitness, found: BatchHeader | None) -> HistoryVerdict:
    """Compare a witness with the batch that the log has at its last offset, or after it if it has none there."""
    if found is None or found.base_offset > witness.last_offset:
        return HistoryVerdict.UNKNOWN
    now = BatchWitness.of(found)
    if now == witness:
        return HistoryVerdict.SAME
    is_same_place = now[:3] == witness[:3]
    if is_same_place and _was_compacted(found) and now.max_timestamp_ms <= witness.max_timestamp_ms:
        return HistoryVerdict.UNKNOWN if now.records_count <= witness.records_count else HistoryVerdict.DIFFERENT
    return HistoryVerdict.DIFFERENT


def _was_compacted(header: BatchHeader) -> bool:
    """Return whether compaction wrote this batch anew: it lacks records, or has the time when tombstones may go."""
    return header.records_count <= header.last_offset_delta or bool(header.attributes & DELETE_HORIZON_FLAG)


def sample_offsets(start: int, end: int, partition_count: int = 1) -> list[int]:
    """Return the offsets whose batches are to be witnesses of a read from `start` to `end`, in order."""
    if end <= start:
        return []
    if partition_count > _SAMPLED_PARTITIONS:
        return [end - 1]
    inner = (start + (end - start) * part // whole for part, whole in _SAMPLES)
    return sorted({*inner, end - 1})


def extended(chain: Sequence[BatchWitness], found: Iterable[BatchWitness], partition_count: int = 1) -> Chain:
    """Return a chain with more witnesses, thinned so that gaps grow with the distance from its end."""
    by_offset = {witness.last_offset: witness for witness in (*chain, *found)}
    ordered = [by_offset[offset] for offset in sorted(by_offset)]
    limit = max(_MIN_CHAIN, min(MAX_CHAIN, _MAX_WITNESSES // max(partition_count, 1)))
    while len(ordered) > limit:
        end = ordered[-1].last_offset
        # The one whose absence makes the smallest gap in proportion to its distance from the end.
        gaps = [
            (ordered[at + 1].last_offset - ordered[at - 1].last_offset) / (end - ordered[at - 1].last_offset)
            for at in range(1, len(ordered) - 1)
        ]
        del ordered[1 + gaps.index(min(gaps))]
    return tuple(ordered)


def cut_chain(chain: Iterable[BatchWitness], end_offset: int) -> Chain:
    """Return the witnesses that lie before an offset."""
    return tuple(witness for witness in chain if witness.last_offset < end_offset)


def chains_to_json(chains: Chains) -> dict[str, list[list[int]]]:
    """Return chains as plain values, partitions in order."""
    return {str(partition): [list(witness) for witness in chains[partition]] for partition in sorted(chains)}


def chains_from_json(content: object) -> dict[int, Chain]:
    """Return what `chains_to_json` described. Raises ConfigError."""
    try:
        return {
            int(partition): tuple(_witness(fields) for fields in chain)
            for partition, chain in content.items()  # type: ignore[attr-defined]  # checked by the except below
        }
    except (AttributeError, TypeError, ValueError):
        raise ConfigError("the witnesses of a log's history cannot be read") from None


def _witness(fields: Sequence[int]) -> BatchWitness:
    if len(fields) != len(BatchWitness._fields) or not all(type(field) is int for field in fields):
        raise ValueError("no witness")
    return BatchWitness(*fields)
