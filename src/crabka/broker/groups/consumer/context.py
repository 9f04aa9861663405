"""The context of one consumer group: its id, the topics of the cluster, and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.groups.consumer.catalog import TopicCatalog
    from crabka.broker.groups.consumer.settings import ConsumerSettings


@dataclass(frozen=True, slots=True)
class GroupContext:
    """Shared by the collaborators of one group, and changed by none of them."""

    group_id: str
    catalog: TopicCatalog
    settings_of: Callable[[str], ConsumerSettings]

    @property
    def settings(self) -> ConsumerSettings:
        """Return the current settings of the group."""
        return self.settings_of(self.group_id)

    def unknown_member(self, member_id: str) -> OperationError:
        """Return the error for a member id that is not in the group."""
        message = f"Member {member_id} is not a member of group {self.group_id}."
        return OperationError(ErrorCode.unknown_member_id, message)
