"""What a plan consists of: ranges of the tier and of brokers, grouped into splits, one of which is one Spark task.

Values that can be pickled and written as JSON. End offsets and end bytes are exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crabka.spark.plan.survey import Survey

AbortedSpans = tuple[tuple[int, int, int], ...]
"""Producer id, first offset and last offset of aborted transactions."""


@dataclass(frozen=True, slots=True)
class TierRange:
    """Offsets that one remote segment has, and which of its bytes hold them; the first byte begins a batch.

    `aborted` are the transactions to leave out; None reads uncommitted records too. No batch of the
    bytes begins before `bytes_start_offset` or reaches over `bytes_end_offset`.
    """

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int
    object_name: str
    start_byte: int
    end_byte: int
    aborted: AbortedSpans | None = None
    bytes_start_offset: int = 0
    bytes_end_offset: int = (1 << 63) - 1

    @property
    def size_bytes(self) -> int:
        """The bytes to fetch."""
        return self.end_byte - self.start_byte


@dataclass(frozen=True, slots=True)
class BrokerRange:
    """Offsets to fetch from a broker."""

    topic: str
    topic_id: str | None
    partition: int
    start_offset: int
    end_offset: int


PlannedRange = TierRange | BrokerRange


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads."""

    ranges: tuple[PlannedRange, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the ranges as plain values."""
        return [{"kind": type(each).__name__} | asdict(each) for each in self.ranges]

    @classmethod
    def from_json(cls, content: list[dict[str, Any]]) -> Split:
        """Return what `as_json` described."""
        return cls(tuple(_range_of(each) for each in content))


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A summary of a plan. `pruned` counts segments that filters made superfluous; `ignored` says why some objects
    of the tier do not count."""

    segments: int = 0
    bytes: int = 0
    pruned: int = 0
    ignored: tuple[str, ...] = ()
    broker_ranges: int = 0
    pruned_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """All splits of a read, the offsets that it covers per topic and partition, and the ids of the topics."""

    splits: tuple[Split, ...]
    ranges: Mapping[tuple[str, int], tuple[int, int]]
    topic_ids: Mapping[str, str | None]
    report: PlanReport = field(default_factory=PlanReport)
    # Where the tier is, as the options or the cluster say; None if brokers serve everything.
    tier_uri: str | None = None
    # What the plan was made from.
    survey: Survey | None = field(default=None, compare=False, repr=False)


def _range_of(content: dict[str, Any]) -> PlannedRange:
    fields = {name: value for name, value in content.items() if name != "kind"}
    if content["kind"] == BrokerRange.__name__:
        return BrokerRange(**fields)
    if fields["aborted"] is not None:
        fields["aborted"] = tuple(tuple(span) for span in fields["aborted"])
    return TierRange(**fields)
