"""What an assignor is given and gives back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Partitions: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
NO_PARTITIONS: Final[Partitions] = {}


class SpecMember(NamedTuple):
    """A member: its static id, the topics that it wants (in a fixed order) and what it was to have before."""

    instance_id: str | None
    topics: tuple[uuid.UUID, ...]
    assignment: Partitions


class AssignmentSpec(NamedTuple):
    """A group: its members in a fixed order, and how many partitions the topics have."""

    members: Mapping[str, SpecMember]
    partition_counts: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members want the same topics."""
        wanted = {member.topics for member in self.members.values()}
        return len(wanted) <= 1
