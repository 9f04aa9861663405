"""The input and the result of an assignor."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Partitions: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
NO_PARTITIONS: Final[Partitions] = {}


class SpecMember(NamedTuple):
    """A member: its instance id, the topics that it subscribes to (in a fixed order), and its last target."""

    instance_id: str | None
    topics: tuple[uuid.UUID, ...]
    assignment: Partitions


class AssignmentSpec(NamedTuple):
    """A group: its members in a fixed order, and the partition counts of the topics."""

    members: Mapping[str, SpecMember]
    partition_counts: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same topics."""
        wanted = {member.topics for member in self.members.values()}
        return len(wanted) <= 1
