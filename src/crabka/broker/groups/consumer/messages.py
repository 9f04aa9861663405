"""What goes into the core of a consumer group and what comes out of it.

Members of the classic protocol come with the events of classic groups. What is to be stored goes out as one batch;
until the core is stepped with its outcome every event waits, and the answers that depend on the batch wait in the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from crabka.broker.groups.messages import Heartbeat, Join, Leave, Reply, Sync, Tick
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.classic_group import ClassicGroup
    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.member import AssignedPartitions
    from crabka.broker.groups.consumer.records import Pair
    from crabka.broker.groups.messages import Answer, Transitioned


class ConsumerHeartbeatResult(NamedTuple):
    """The answer to a heartbeat; without an assignment the member keeps the one that it knows."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: AssignedPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member joins, lives, tells what it owns, or leaves. What is None did not change since it was told last."""

    reply: Reply
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None

    @property
    def is_full(self) -> bool:
        """Return whether the member told everything, so that it is told everything."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.member_epoch == 0 or (
            self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class RecordsStored:
    """The batch that was given out last was appended, or not."""

    error_code: ErrorCode = ErrorCode.none


ConsumerEvent: TypeAlias = ConsumerHeartbeat | Join | Sync | Heartbeat | Leave | Tick | RecordsStored


@dataclass(frozen=True, slots=True)
class PersistBatch:
    """Append the records as one batch, then step with RecordsStored."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Downgraded:
    """The group is a classic one from now on; whoever waits here is to be heard there."""

    group: ClassicGroup
    # Whether its members have to join anew.
    rebalances: bool


@dataclass(frozen=True, slots=True)
class CreationFailed:
    """The first records of the group could not be stored: it never was."""


ConsumerAction: TypeAlias = "Answer | PersistBatch | Transitioned | Downgraded | CreationFailed"
