"""Assignors by the names that clients and `group.consumer.assignors` use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.groups.consumer.assignors import range as range_assignor
from crabka.broker.groups.consumer.assignors import uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions

    Assign = Callable[[AssignmentSpec], dict[str, Partitions]]

ASSIGNORS: Final[Mapping[str, Assign]] = {"uniform": uniform.assign, "range": range_assignor.assign}
