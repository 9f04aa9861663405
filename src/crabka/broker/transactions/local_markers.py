"""Writes the markers that end transactions into partitions that this node leads (KIP-98, KIP-890).

A marker in `__consumer_offsets` also ends the transaction for committed offsets: once it is in the log, they become
valid or are dropped (KIP-447). A repeated marker is written again, which changes nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from crabka.broker.coordinators.appender import is_stored
from crabka.broker.groups.shard import OFFSETS_TOPIC
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.log.producers.verification import AppendTerms
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.groups.coordinator import GroupCoordinator
    from crabka.broker.partition.leader_append import LeaderAppender
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.transactions.ports import TxnMarker
    from crabka.config.server import ServerConfig
    from crabka.ports import Clock

    Done = Callable[[ErrorCode], None]

# The sender retries on these; it does not expect the errors of a group coordinator.
_NOT_READY = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)


class LocalMarkerWriter:
    """Markers for partitions of this node."""

    def __init__(
        self,
        clock: Clock,
        partitions: PartitionRegistry,
        groups: GroupCoordinator,
        appender: LeaderAppender,
        config: Callable[[], ServerConfig],
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._groups = groups
        self._appender = appender
        self._config = config

    async def write(self, markers: Sequence[TxnMarker]) -> list[dict[TopicPartition, ErrorCode]]:
        """Write all markers and wait until they are replicated; return one result per marker."""
        loop = asyncio.get_running_loop()
        outcomes: list[dict[TopicPartition, asyncio.Future[ErrorCode]]] = []
        for marker in markers:
            futures = {place: loop.create_future() for place in marker.partitions}
            outcomes.append(futures)
            for place, future in futures.items():
                self._write_one(marker, place, partial(_resolve, future))
        return [{place: await future for place, future in futures.items()} for futures in outcomes]

    def _write_one(self, marker: TxnMarker, place: TopicPartition, done: Done) -> None:
        try:
            partition = self._partitions.by_name(*place)
            if place.topic == OFFSETS_TOPIC:
                done = self._completing(marker, place.partition, done)
        except OperationError as error:
            done(ErrorCode.not_leader_or_follower if error.error_code in _NOT_READY else error.error_code)
            return
        batch = build_end_transaction_batch(
            EndTransactionMarker(marker.commit, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._clock.now_ms(),
        )
        terms = AppendTerms(transaction_version=marker.transaction_version)
        self._appender.append(partition, batch, terms, done, timeout_ms=self._config().request_timeout_ms)

    def _completing(self, marker: TxnMarker, index: int, done: Done) -> Done:
        """Return a callback that ends the transaction for the offsets of a shard as well.

        Raises OperationError if this node does not lead the shard or has not loaded it.
        """
        offsets = self._groups.shards.get(index).shard.offsets

        def complete(error_code: ErrorCode) -> None:
            if is_stored(error_code):
                offsets.complete(marker.producer_id, commit=marker.commit)
            done(error_code)

        return complete


def _resolve(future: asyncio.Future[ErrorCode], error_code: ErrorCode) -> None:
    if not future.done():
        future.set_result(error_code)
