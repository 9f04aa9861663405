"""An incremental fetch session (KIP-227) on the follower's side: a request has only what has changed.

Kafka: FetchSessionHandler. Which partitions are wanted is set one by one, in the packed form of the wire, so that a
fetch costs what changed since the last one and not what there is. PURE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

FetchKey = tuple[bytes, int]
"""Topic id, as on the wire, and partition."""

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """What the next request says of sessions and partitions."""

    session_id: int
    session_epoch: int
    # Packed partitions.
    topics: dict[bytes, list[bytes]]
    forgotten: dict[bytes, list[int]]


class FollowerSession:
    """What a leader knows of the partitions that are fetched from it."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[FetchKey, bytes] = {}
        # What the leader does not know yet. Without a session it knows nothing.
        self._changed: dict[FetchKey, None] = {}
        self._forgotten: dict[FetchKey, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_full(self) -> bool:
        """Whether the next request is a full one."""
        return self._epoch == INITIAL_EPOCH

    def want(self, key: FetchKey, packed: bytes) -> None:
        """Fetch a partition from now on, in this way."""
        if self._wanted.get(key) != packed:
            self._wanted[key] = packed
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def drop(self, key: FetchKey) -> None:
        """Fetch a partition no longer; one that is not fetched is fine."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def next_request(self) -> SessionRequest:
        """Return what to send; its response must be passed in before the next request."""
        if self.is_full:
            return SessionRequest(self._session_id, INITIAL_EPOCH, self._packed(self._wanted), {})
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        return SessionRequest(self._session_id, self._epoch, self._packed(self._changed), forgotten)

    def sent(self) -> None:
        """Note that the request is on its way: changes from now on are for the one after it."""
        self._changed.clear()
        self._forgotten.clear()

    def answered(self, error_code: int, session_id: int) -> None:
        """Go on as the leader's answer says. After an error, or without a session, the next request is a full one."""
        if error_code == ErrorCode.fetch_session_id_not_found.value:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif error_code or session_id == NO_SESSION:
            # The id names the session that the leader replaces.
            self._epoch = INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
            self._session_id = session_id

    def reset(self) -> None:
        """Begin anew: the connection is another one, and what the leader got is not known."""
        self._epoch = INITIAL_EPOCH

    def _packed(self, keys: Iterable[FetchKey]) -> dict[bytes, list[bytes]]:
        topics: dict[bytes, list[bytes]] = {}
        wanted = self._wanted
        for key in keys:
            topics.setdefault(key[0], []).append(wanted[key])
        return topics
