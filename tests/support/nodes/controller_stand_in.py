"""A stand-in for the metadata quorum as a broker's channel sees it, and a controller that answers in process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.apis import SPECS, ApiKey, MessageTypes, request_types, response_types
from crabka.quorum.raft.watch import QuorumLeader


class KnownLeader:
    """Reports who leads; a test moves it."""

    def __init__(self) -> None:
        self.leader = QuorumLeader(None, 0)
        self._callbacks: list[Callable[[QuorumLeader], None]] = []

    def on_leader_change(self, callback: Callable[[QuorumLeader], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        callback(self.leader)
        return lambda: self._callbacks.remove(callback)

    def lead(self, node_id: int | None, host: str = "", port: int = 0) -> None:
        endpoints = (VoterEndpoint("CONTROLLER", host, port),) if host else ()
        self.leader = QuorumLeader(node_id, self.leader.epoch + 1, endpoints)
        for callback in list(self._callbacks):
            callback(self.leader)


class ControllerInProcess:
    """The controller of the broker's own node, answering with functions of a test."""

    def __init__(self) -> None:
        self.is_active = True
        self.answers: dict[ApiKey, Callable[[MessageTypes, Any], Any]] = {}
        self.asked: list[tuple[ApiKey, Any]] = []
        self.dispatcher: Any = None

    async def answer(self, api_key: ApiKey, version: int, body: Any) -> Any:
        self.asked.append((api_key, body))
        return self.answers[api_key](response_types(api_key, version), body)

    async def request(self, api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
        """Ask it as a channel would."""
        version = SPECS[api_key].max_version
        return await self.answer(api_key, version, build(request_types(api_key, version)))
