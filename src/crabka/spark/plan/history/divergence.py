"""How a log differs from the one that was read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crabka.ids import TopicPartition
from crabka.spark.errors import DataLossError
from crabka.spark.plan.history.witnesses import Chain

_SHOWN: Final = 3


class ReadPosition(NamedTuple):
    """How far a partition was read: the next offset, and witnesses of what lies before it."""

    offset: int
    chain: Chain = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A partition whose log was cut below the position of a reader, and where."""

    partition: TopicPartition
    position: int
    # Below this offset the log has what was read, which a witness proves. 0 if none does.
    agreed_offset: int
    # From this offset on, at the latest, the log has something else, or nothing.
    differs_offset: int
    log_start_offset: int

    @property
    def rewind_offset(self) -> int:
        """Where to read again. What lies before the log start cannot be read again, so it is kept."""
        return min(self.position, max(self.agreed_offset, self.log_start_offset))

    def __str__(self) -> str:
        common = (
            f"agree before offset {self.agreed_offset}" if self.agreed_offset else "are not known to agree anywhere"
        )
        return (
            f"the log of {self.partition} was cut: it no longer has what was read before offset "
            f"{self.position}; the histories {common} and differ from offset {self.differs_offset} on at the latest"
        )


class LogCutError(DataLossError):
    """Logs were cut below what was read of them, and filled again or not. `divergences` say where."""

    def __init__(self, divergences: Sequence[Divergence], remedy: str = "") -> None:
        shown = "; ".join(map(str, divergences[:_SHOWN]))
        more = f"; and so were {len(divergences) - _SHOWN} more partitions" if len(divergences) > _SHOWN else ""
        super().__init__(f"{shown}{more}{remedy}")
        self.divergences = tuple(divergences)
