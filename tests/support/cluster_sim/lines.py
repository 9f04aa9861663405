"""The path of a client to the node that answers: a coordinator of its group or transaction, or a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import BodyBuilder
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

GROUP_KEY, TRANSACTION_KEY = 0, 1
TO_TRANSACTION_COORDINATOR = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN}
)
RETRY_S = 0.1


class CoordinatorLine:
    """Asks the right broker, and finds out anew who that is after every error."""

    def __init__(self, connect: Callable[[], Cluster], *, group_id: str, transactional_id: str) -> None:
        self._cluster = connect()
        self._keys = {GROUP_KEY: group_id, TRANSACTION_KEY: transactional_id}
        self._coordinators: dict[int, int] = {}

    async def ask(
        self, api_key: ApiKey, build: BodyBuilder, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return its answer. Raises CrabkaError if there is none."""
        try:
            node_id = await self._node_for(api_key, build)
            connection = await self._cluster.connection(node_id)
            answer = await connection.request(api_key, build, timeout_ms, max_version=max_version)
        except CrabkaError:
            self._forget()
            raise
        if any(code is not ErrorCode.none for code in error_codes(answer)):
            self._forget()
        return answer

    def close(self) -> None:
        """Close all connections; they end in their own time."""
        self._cluster._is_closed = True
        for connection in self._cluster._connections.values():
            connection.close()

    def _forget(self) -> None:
        self._coordinators.clear()
        for topic in list(self._cluster.view.topics):
            self._cluster.invalidate(topic)

    async def _node_for(self, api_key: ApiKey, build: BodyBuilder) -> int:
        if api_key is ApiKey.PRODUCE:
            (topic,) = build(PRODUCE_TYPES).topic_data
            where = TopicPartition(topic.name, topic.partition_data[0].index)
            return (await self._cluster.partition(where)).leader
        key_type = TRANSACTION_KEY if api_key in TO_TRANSACTION_COORDINATOR else GROUP_KEY
        if key_type not in self._coordinators:
            self._coordinators[key_type] = await self._find(key_type)
        return self._coordinators[key_type]

    async def _find(self, key_type: int) -> int:
        def build(types: MessageTypes) -> Any:
            return types.message(key_type=key_type, coordinator_keys=[self._keys[key_type]])

        answer = await self._cluster.request_any(ApiKey.FIND_COORDINATOR, build, 3_000)
        (row,) = answer.coordinators
        if row.error_code is not ErrorCode.none:
            await asyncio.sleep(RETRY_S)
            raise OperationError(ErrorCode(row.error_code), f"no coordinator: {ErrorCode(row.error_code).name}")
        return int(row.node_id)


class _Body:
    """Any structure of a request, just to look at its fields."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        return None


class _BodyTypes:
    """Stands in for the classes of a version: the builder's values can be read before a version is known."""

    @staticmethod
    def message(**values: Any) -> _Body:
        return _Body(**values)

    @staticmethod
    def new(_name: str, **values: Any) -> _Body:
        return _Body(**values)


PRODUCE_TYPES: Any = _BodyTypes()


def error_codes(answer: Any) -> Iterator[ErrorCode]:
    """Yield all error codes in an answer, whatever its shape."""
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from error_codes(each)
    elif is_dataclass(answer):
        for each in fields(answer):
            value = getattr(answer, each.name)
            if each.name.endswith("error_code"):
                yield ErrorCode(value)
            elif isinstance(value, list | tuple) or is_dataclass(value):
                yield from error_codes(value)
