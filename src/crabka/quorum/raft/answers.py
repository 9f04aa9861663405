"""Answers to requests of peers and clients: reads the data that the core refers to and encodes the response."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabka.kraft.messages import (
    DescribeResponse,
    FetchSnapshotResponse,
    LogRange,
    MetadataFetchResponse,
    ReplicaDescription,
    Response,
    SnapshotRange,
)
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.messages import encode_refusal, encode_response

if TYPE_CHECKING:
    from crabka.ports import Clock
    from crabka.quorum.raft.log import RaftLog


class WireAnswer:
    """The token of a request from the wire; `done` gives the body of the response."""

    def __init__(self, api_key: ApiKey, version: int, listener: str) -> None:
        self._api_key = api_key
        self._version = version
        self._listener = listener
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def give(self, response: Response) -> None:
        """Answer, unless the client is gone."""
        if not self.done.done():
            self.done.set_result(encode_response(self._api_key, self._version, response, listener=self._listener))

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        if not self.done.done():
            self.done.set_result(encode_refusal(self._api_key, self._version, error, message))


def fill_response(log: RaftLog, response: Response, clock: Clock) -> Response:
    """Read the records or bytes of a response; convert times to the wall clock."""
    match response:
        case MetadataFetchResponse(records=LogRange() as wanted):
            records = log.serve(wanted)
            if records is None:
                # The follower retries after a pause, and treats this leader as unreachable meanwhile.
                return MetadataFetchResponse(error=ErrorCode.kafka_storage_error, leader=response.leader)
            return replace(response, records=records)
        case FetchSnapshotResponse(data=SnapshotRange() as piece):
            data = log.read_snapshot(piece)
            if data is None:
                return FetchSnapshotResponse(error=ErrorCode.snapshot_not_found, leader=response.leader)
            return replace(response, data=data)
        case DescribeResponse():
            behind_ms = clock.now_ms() - clock.monotonic_ms()
            return replace(
                response,
                voters=tuple(_on_wall_clock(replica, behind_ms) for replica in response.voters),
                observers=tuple(_on_wall_clock(replica, behind_ms) for replica in response.observers),
            )
        case _:
            return response


def _on_wall_clock(replica: ReplicaDescription, behind_ms: int) -> ReplicaDescription:
    fetched, caught_up = (
        time_ms if time_ms < 0 else time_ms + behind_ms
        for time_ms in (replica.last_fetch_ms, replica.last_caught_up_ms)
    )
    return replica._replace(last_fetch_ms=fetched, last_caught_up_ms=caught_up)
