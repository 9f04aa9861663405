"""Client quotas where requests come in (KIP-13, 124, 219): measures what clients use, mutes those above their share.

Bytes are those of produce requests and of fetch responses, and the time is that of the handlers on the loop. A client
above its share gets its answer at once, with the time that it should wait; for that time its connection is not read.
A node without quotas has none of this between a connection and its dispatcher. Kafka answers a fetch above the share
with no records and counts nothing; here the records are sent and counted, which comes to the same rate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from crabka.errors import WireError
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import read_request
from crabka.protocol.headers import parse_request_header
from crabka.protocol.throttle_time import throttle_ms_of, with_throttle_ms
from crabka.security.quotas.table import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaTable,
)
from crabka.security.quotas.usage import RateUsage
from crabka.serving.changed_answers import when_answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.metadata.security import QuotaEntity
    from crabka.net.dispatch import ConnectionInfo, Dispatch, Response
    from crabka.ports import Clock
    from crabka.protocol.headers import RequestHeader
    from crabka.security.quotas.windows import WindowSettings
    from crabka.serving.changed_answers import Answer

    Entities = Mapping[QuotaEntity, Mapping[str, float]]

_PERCENT_PER_NS: Final = 100 / 1e9
_LENGTH_BYTES: Final = 4
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
# Requests of other brokers, which must not wait for a client's share.
_EXEMPT: Final = frozenset({int(ApiKey.WRITE_TXN_MARKERS)})
_FIRST_FETCH_WITH_REPLICA_STATE: Final = 15


class ClientQuotas:
    """The quotas of users and client ids, and what they used lately. One per node."""

    def __init__(self, clock: Clock, windows: WindowSettings) -> None:
        self._clock = clock
        self._entities: Entities = {}
        self._tables = self._read({})
        self._usages = {
            key: RateUsage(windows, longest_ms=windows.length_ms if key == REQUEST_PERCENTAGE else None)
            for key in _KEYS
        }

    def take(self, entities: Entities) -> bool:
        """Use these quotas from now on; return whether they are others than before."""
        if entities is self._entities:
            return False
        self._entities = entities
        self._tables = self._read(entities)
        return True

    @staticmethod
    def _read(entities: Entities) -> dict[str, QuotaTable]:
        return {key: QuotaTable(entities, key) for key in (*_KEYS, CONTROLLER_MUTATION_RATE)}

    @property
    def is_empty(self) -> bool:
        """Return whether no client has a quota that is measured here, or that a controller measures.

        The controller's answer names the time to wait, and the connection of the client is here.
        """
        return not any(self._tables.values())

    def gate(self, dispatch: Dispatch) -> Dispatch:
        """Return a dispatcher that measures what passes through another one."""

        def measured(connection: ConnectionInfo, frame: memoryview) -> Answer:
            try:
                header = parse_request_header(frame)
            except WireError:
                return dispatch(connection, frame)
            if header.api_key in _EXEMPT or _is_of_replica(header, frame):
                return dispatch(connection, frame)
            began_ns, frame_bytes = self._clock.processor_ns(), len(frame) + _LENGTH_BYTES
            answer = dispatch(connection, frame)
            spent_ns = self._clock.processor_ns() - began_ns
            return when_answered(answer, partial(self._account, connection, header, frame_bytes, spent_ns))

        return measured

    def _account(
        self, connection: ConnectionInfo, header: RequestHeader, frame_bytes: int, spent_ns: int, response: Response
    ) -> Response:
        """Count a request that was answered; return the answer with the time that its client has to wait."""
        user, client_id = connection.principal.name, header.client_id or ""
        throttle_ms = self._record(REQUEST_PERCENTAGE, user, client_id, spent_ns * _PERCENT_PER_NS)
        if header.api_key == _PRODUCE:
            throttle_ms = max(throttle_ms, self._record(PRODUCER_BYTE_RATE, user, client_id, frame_bytes))
        elif header.api_key == _FETCH and response is not None:
            sent_bytes = sum(map(len, response))
            throttle_ms = max(throttle_ms, self._record(CONSUMER_BYTE_RATE, user, client_id, sent_bytes))
        if response is None:
            if throttle_ms:
                connection.mute(throttle_ms)
            return None
        own_ms = throttle_ms_of(header.api_key, header.api_version, response)
        if throttle_ms > own_ms:
            response = with_throttle_ms(header.api_key, header.api_version, response, throttle_ms)
        if throttle_ms or own_ms:
            connection.mute(max(throttle_ms, own_ms))
        return response

    def _record(self, key: str, user: str, client_id: str, amount: float) -> int:
        quota = self._tables[key].find(user, client_id)
        return 0 if quota is None else self._usages[key].record(quota, amount, self._clock.monotonic_ms())


_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


def _is_of_replica(header: RequestHeader, frame: memoryview) -> bool:
    if header.api_key != _FETCH:
        return False
    body = read_request(header.api_key, header.api_version, frame, header.body_offset)
    if header.api_version < _FIRST_FETCH_WITH_REPLICA_STATE:
        return bool(body.replica_id >= 0)
    return bool(body.replica_state.replica_id >= 0)
