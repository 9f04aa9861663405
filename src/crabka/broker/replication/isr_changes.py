"""Sends the ISR changes that this node's leaders propose to the controller (AlterPartition, KIP-497).

One request is on its way at a time; what is proposed meanwhile goes with the next one. A proposal is sent again until
it is answered, or until its partition has moved on: then its answer would not count any more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crabka.broker.replication.isr_state import ProposalFate
from crabka.errors import CrabkaError, InvariantError
from crabka.metadata.topics import PartitionImage
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.isr_state import ProposedIsr
    from crabka.ids import TopicId
    from crabka.ports import Spawn
    from crabka.protocol.message_types import MessageTypes

    PartitionKey = tuple[TopicId, int]

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 50
# A leader says that it has recovered as soon as it leads, as in Kafka (KIP-704).
RECOVERED = 0


class ControllerPort(Protocol):
    """Asks the active controller, wherever it is."""

    async def request(self, api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
        """Return the answer to what `build` makes in the version that is used. Raises CrabkaError."""


class LeadingBroker(Protocol):
    """Who this node is in the cluster; the epoch is known once it is registered."""

    @property
    def node_id(self) -> int:
        """Its id."""

    @property
    def broker_epoch(self) -> int:
        """Of its registration."""


class _Change(NamedTuple):
    """A proposal that is not answered yet."""

    partition: Partition
    proposal: ProposedIsr
    leader_epoch: int

    @property
    def is_current(self) -> bool:
        replication = self.partition.replication
        return replication is not None and replication.isr_state.pending is self.proposal


class IsrChanges:
    """All proposals of a node. `close` is not needed: the sending ends with the scope of `spawn`."""

    def __init__(
        self,
        controller: ControllerPort,
        identity: LeadingBroker,
        *,
        spawn: Spawn,
        backoff_ms: int = RETRY_BACKOFF_MS,
    ) -> None:
        self._controller = controller
        self._identity = identity
        self._spawn = spawn
        self._backoff_ms = backoff_ms
        self._unanswered: dict[PartitionKey, _Change] = {}
        self._is_sending = False

    def propose(self, partition: Partition, proposal: ProposedIsr) -> None:
        """Send a proposal, now or with the next request."""
        key = (partition.topic_id, partition.index)
        self._unanswered[key] = _Change(partition, proposal, partition.leader_epoch)
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._drop_outdated():
                if not await self._send(dict(self._unanswered)):
                    await asyncio.sleep(self._backoff_ms / 1000)
        finally:
            self._is_sending = False

    def _drop_outdated(self) -> bool:
        """Forget what is past; return whether anything is left to send."""
        for key in [key for key, change in self._unanswered.items() if not change.is_current]:
            del self._unanswered[key]
        return bool(self._unanswered)

    async def _send(self, changes: dict[PartitionKey, _Change]) -> bool:
        """Send one request and take over its answers; return whether all is well."""
        try:
            answer = await self._controller.request(
                ApiKey.ALTER_PARTITION, lambda types: self._build(types, changes.values())
            )
        except InvariantError:
            raise
        except CrabkaError as error:
            logger.info("Cannot ask the controller for %d ISR changes: %s", len(changes), error)
            return False
        except Exception:
            # The changes that wait are sent with the next attempt.
            logger.exception("Asking the controller for %d ISR changes failed", len(changes))
            return False
        if answer.error_code is not ErrorCode.none:
            logger.info("The controller refuses %d ISR changes: %s", len(changes), answer.error_code.name)
            return False
        is_well = True
        for topic in answer.topics:
            for row in topic.partitions:
                key = (topic.topic_id, row.partition_index)
                change = changes.pop(key, None)
                is_well &= change is None or self._answered(key, change, row)
        # A proposal without an answer stays, and is sent again.
        return is_well and not changes

    def _answered(self, key: PartitionKey, change: _Change, row: Any) -> bool:
        image = _image_of(change, row) if row.error_code is ErrorCode.none else None
        outcome = change.partition.followers.isr_answered(change.proposal, row.error_code, image)
        if outcome is ProposalFate.RETRY:
            return False
        # The partition may have proposed something else by now.
        if self._unanswered.get(key) is change:
            del self._unanswered[key]
        partition = change.partition
        if outcome is ProposalFate.COMMITTED:
            logger.info("The ISR of %s-%d is %s", partition.topic, partition.index, list(row.isr))
        elif outcome is not ProposalFate.OUTDATED:
            logger.info(
                "The ISR of %s-%d does not become %s: %s",
                partition.topic,
                partition.index,
                list(change.proposal.isr),
                row.error_code.name,
            )
        return True

    def _build(self, types: MessageTypes, changes: Iterable[_Change]) -> Any:
        by_topic: dict[TopicId, list[Any]] = {}
        for change in changes:
            if not change.is_current:
                # The request may be built anew much later, for another controller.
                continue
            rows = by_topic.setdefault(change.partition.topic_id, [])
            rows.append(_partition_data(types, change))
        return types.message(
            broker_id=self._identity.node_id,
            broker_epoch=self._identity.broker_epoch,
            topics=[types.new("TopicData", topic_id=topic_id, partitions=rows) for topic_id, rows in by_topic.items()],
        )


def _partition_data(types: MessageTypes, change: _Change) -> Any:
    partition, proposal = change.partition, change.proposal
    replication = partition.replication
    epochs = [] if replication is None else replication.broker_epochs(proposal)
    # Version 2 knows no epochs: what a version lacks is left out.
    members = [types.new("BrokerState", broker_id=member, broker_epoch=epoch) for member, epoch in epochs]
    return types.new(
        "PartitionData",
        partition_index=partition.index,
        leader_epoch=change.leader_epoch,
        new_isr=proposal.isr,
        new_isr_with_epochs=members,
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )


def _image_of(change: _Change, row: Any) -> PartitionImage:
    """Return what the answer says of a partition; its replicas are as they were."""
    replication = change.partition.replication
    followers = () if replication is None else tuple(replication.followers)
    return PartitionImage(
        replicas=(change.partition.leader_id, *followers),
        isr=tuple(row.isr),
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        partition_epoch=row.partition_epoch,
        directories=(),
    )
