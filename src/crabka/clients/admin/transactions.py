"""Administration of transactions: list, describe, end those that their producer or their coordinator left (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.requests import AdminRequests, check
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.coordinator_requests import TRANSACTION_KEY_TYPE, find_coordinator, retry_passing
from crabka.clients.cluster.leader_requests import Answers, ask_leaders, error_or
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

_NO_PRODUCER_ID = -1
_NO_PRODUCER_EPOCH = -1
# The producer that this request makes writes nothing: it only fences the one before.
_SHORT_TIMEOUT_MS = 1


class TransactionListing(NamedTuple):
    """A transactional id in the list of its coordinator."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """A transactional id; the start is -1 without an open transaction."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp_ms: int
    partitions: tuple[TopicPartition, ...]


class TransactionAdmin:
    """Calls about transactions."""

    def __init__(self, requests: AdminRequests) -> None:
        self._cluster = requests.cluster
        self._timeout_ms = requests.timeout_ms

    async def list(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all brokers by name, filtered if asked. Raises OperationError."""
        brokers = (await self._cluster.refresh(())).brokers

        def build(types: MessageTypes) -> Any:
            return types.message(
                state_filters=states,
                producer_id_filters=producer_ids,
                duration_filter=-1,
                transactional_id_pattern=None,
            )

        async def ask(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.request(node_id, ApiKey.LIST_TRANSACTIONS, build, self._timeout_ms)
            check(response, f"transactions of broker {node_id}")
            return [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in response.transaction_states
            ]

        attempts = (retry_passing(self._cluster, partial(ask, node_id), self._timeout_ms) for node_id in brokers)
        return sorted(each for found in await asyncio.gather(*attempts) for each in found)

    async def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return transactional ids; those that do not exist any more are missing. Raises OperationError."""
        found: dict[str, TransactionDescription] = {}
        for name in transactional_ids:
            described = await retry_passing(self._cluster, partial(self._describe, name), self._timeout_ms)
            if described is not None:
                found[name] = described
        return found

    async def _describe(self, name: str) -> TransactionDescription | None:
        node_id = await find_coordinator(self._cluster, name, TRANSACTION_KEY_TYPE)
        response = await self._cluster.request(
            node_id,
            ApiKey.DESCRIBE_TRANSACTIONS,
            lambda types: types.message(transactional_ids=[name]),
            self._timeout_ms,
        )
        (state,) = response.transaction_states
        if state.error_code is ErrorCode.transactional_id_not_found:
            return None
        check(state, f"transactional id {name}")
        return TransactionDescription(
            name,
            node_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout // timedelta(milliseconds=1),
            state.transaction_start_time,
            tuple(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
        )

    async def terminate(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id and fence its producer, as a new producer would.

        Raises OperationError.
        """

        def build(types: MessageTypes) -> Any:
            return types.message(
                transactional_id=transactional_id,
                transaction_timeout=_SHORT_TIMEOUT_MS,
                producer_id=_NO_PRODUCER_ID,
                producer_epoch=_NO_PRODUCER_EPOCH,
            )

        async def attempt() -> None:
            node_id = await find_coordinator(self._cluster, transactional_id, TRANSACTION_KEY_TYPE)
            response = await self._cluster.request(node_id, ApiKey.INIT_PRODUCER_ID, build, self._timeout_ms)
            check(response, f"transactional id {transactional_id}")

        passing = {
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.not_coordinator,
            # The abort of the old transaction is being written.
            ErrorCode.concurrent_transactions,
        }
        await retry_passing(self._cluster, attempt, self._timeout_ms, passing)

    async def abort_hanging(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """Write the marker of an abort for a transaction that no coordinator knows. Raises OperationError."""

        async def ask(connection: Connection, _partitions: Sequence[TopicPartition]) -> Answers[None]:
            response = await connection.request(ApiKey.WRITE_TXN_MARKERS, build, self._timeout_ms)
            return {
                TopicPartition(topic.name, result.partition_index): error_or(
                    result.error_code, result.error_code.name, None
                )
                for marker in response.markers
                for topic in marker.topics
                for result in topic.partitions
            }

        def build(types: MessageTypes) -> Any:
            topic = types.new("WritableTxnMarkerTopic", name=partition.topic, partition_indexes=[partition.partition])
            marker = types.new(
                "WritableTxnMarker",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[topic],
                # A partition without a marker yet has no coordinator epoch.
                coordinator_epoch=max(producer.coordinator_epoch, 0),
                transaction_version=0,
            )
            return types.message(markers=[marker])

        try:
            await ask_leaders(self._cluster, [partition], ask, self._timeout_ms)
        except OperationError as error:
            raise OperationError(
                error.error_code, f"the transaction in {partition} was not aborted: {error}"
            ) from error
