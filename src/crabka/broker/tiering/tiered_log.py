"""What copying and retention need from the log of a partition; `PartitionLog` is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.formats.leader_epochs import EpochLineage
    from crabka.log.partition.tierable import SegmentExtent, TierableSegment, UntieredPart


class LogEpochs(Protocol):
    """The leader epochs of a log."""

    @property
    def lineage(self) -> EpochLineage:
        """The epochs with their first offsets."""
        ...

    def encode(self, end_offset: int, /) -> bytes:
        """Return a checkpoint file of the epochs that began before an offset."""
        ...


class TieredLog(Protocol):
    """A log whose segments go to the tier."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    # The last offset that the tier is known to hold with all before it, -1 if nothing is known.
    highest_remote_offset: int
    config: TopicConfig

    @property
    def log_dir(self) -> str:
        """The log dir that it lies in."""
        ...

    @property
    def leader_epochs(self) -> LogEpochs:
        """Its history."""
        ...

    @property
    def is_tiered(self) -> bool:
        """Whether its segments are, or may be, in the tier."""
        ...

    @property
    def copies_to_tier(self) -> bool:
        """Whether new segments go there."""
        ...

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on the local disk."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """What lies below is decided and replicated."""
        ...

    def tierable_segments(self, from_offset: int, upper_offset: int, /) -> list[TierableSegment]:
        """Return sealed segments that end in [from, upper), oldest first."""
        ...

    def has_segment(self, tierable: TierableSegment, /) -> bool:
        """Return whether a segment is still here as it was: neither cut nor removed."""
        ...

    def prepare_for_copy(self, tierable: TierableSegment, /) -> bool:
        """Make the files of a segment complete, in any thread; return False if it is gone.

        Raises CorruptDataError if a batch is damaged.
        """
        ...

    def report_damage_at(self, offset: int, reason: str, /) -> None:
        """Have the segment checked and repaired that holds an offset."""
        ...

    def note_remote_offset(self, offset: int, /) -> None:
        """Note that the tier holds everything up to an offset, which may be lower than before."""
        ...

    def doubt_remote_offset(self) -> None:
        """Note that the known state of the tier may be wrong: nothing is deleted by it until it is noted again."""
        ...

    def raise_log_start(self, offset: int, /) -> bool:
        """Move the log start up, without touching local segments; return whether it moved."""
        ...

    def untiered(self) -> UntieredPart:
        """Return how much of it only this disk has, by `highest_remote_offset`."""
        ...

    def local_extents(self) -> list[SegmentExtent]:
        """Return which offsets lie on this disk, segment by segment, and how large they are."""
        ...
