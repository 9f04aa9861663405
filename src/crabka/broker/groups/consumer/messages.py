"""Events and actions of the core of a consumer group.

Members with the classic protocol send the events of classic groups. The records of a step leave the core as one batch.
Until the core is stepped with the outcome of the batch, all events and the answers that depend on it wait in the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from crabka.broker.groups.messages import Heartbeat, Join, Leave, Reply, Sync, Tick
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.member import AssignedPartitions
    from crabka.broker.groups.consumer.records import Pair
    from crabka.broker.groups.membership import Membership
    from crabka.broker.groups.messages import Answer, Transitioned


class ConsumerHeartbeatResult(NamedTuple):
    """The answer to a heartbeat; without an assignment the member keeps its current one."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: AssignedPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member joins, reports what it owns, or leaves. A field that is None did not change since the last report."""

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
        """Return whether the member reported every field, so that the answer has to be complete as well."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.member_epoch == 0 or (
            self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class RecordsStored:
    """The outcome of the batch that was returned last."""

    error_code: ErrorCode = ErrorCode.none


ConsumerEvent: TypeAlias = ConsumerHeartbeat | Join | Sync | Heartbeat | Leave | Tick | RecordsStored


@dataclass(frozen=True, slots=True)
class PersistBatch:
    """Append the records as one batch, then step with RecordsStored."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Downgraded:
    """The group is a classic one from now on. Requests that wait here have to be processed there."""

    membership: Membership
    # Whether its members have to join again.
    rebalances: bool


@dataclass(frozen=True, slots=True)
class CreationFailed:
    """The first records of the group could not be stored: it does not exist."""


ConsumerAction: TypeAlias = "Answer | PersistBatch | Transitioned | Downgraded | CreationFailed"
