"""Requests under way: one per peer and kind, a pause after a failure, and no answer to a question of another role."""

from __future__ import annotations

from typing import NamedTuple

from crabka.kraft.messages import Request


class SentRequest(NamedTuple):
    """A request that waits for its outcome."""

    node_id: int
    request: Request


class RequestTracker:
    """Which peer may be asked what, and what an outcome belongs to."""

    def __init__(self) -> None:
        self._next_id = 0
        self._sent: dict[int, SentRequest] = {}
        self._retry_at: dict[tuple[int, type], int] = {}

    def start(self, node_id: int, request: Request) -> int:
        """Note a request and return its id."""
        self._next_id += 1
        self._sent[self._next_id] = SentRequest(node_id, request)
        return self._next_id

    def finish(self, request_id: int) -> SentRequest | None:
        """Return the request of an answer; None if it is no longer awaited."""
        return self._sent.pop(request_id, None)

    def pause(self, sent: SentRequest, until_ms: int) -> None:
        """Do not ask this peer the same kind of question before `until_ms`."""
        self._retry_at[(sent.node_id, type(sent.request))] = until_ms

    def is_ready(self, node_id: int, kind: type) -> bool:
        """Whether the peer may be asked now."""
        return (node_id, kind) not in self._retry_at and not any(
            sent.node_id == node_id and type(sent.request) is kind for sent in self._sent.values()
        )

    def is_under_way(self, *kinds: type) -> bool:
        """Whether any peer was asked and did not answer yet."""
        return any(type(sent.request) in kinds for sent in self._sent.values())

    def end_pauses(self, now_ms: int) -> None:
        """Forget the pauses that are over."""
        if self._retry_at:
            self._retry_at = {key: at for key, at in self._retry_at.items() if at > now_ms}

    @property
    def next_retry_ms(self) -> int | None:
        """When the next pause ends."""
        return min(self._retry_at.values(), default=None)

    def reset(self) -> None:
        """Forget everything: answers to what an earlier role asked are ignored."""
        self._sent.clear()
        self._retry_at.clear()
