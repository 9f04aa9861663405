"""The client of a fetch, and its incremental session (KIP-227).

A session remembers which partitions a client reads and what it last received of each, so that request and
response carry only what changed. The cache is bounded: when it is full, a session that was idle for
`MIN_EVICTION_AGE_MS` makes room, else the new client is served without a session. Followers are privileged: for one of
them a consumer's session makes room at any time, as a cluster must not replicate slowly because it has many consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.config.java_classes import RACK_AWARE_SELECTOR
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from crabka.config.server import ServerConfig
    from crabka.ids import TopicId

READ_COMMITTED = 1
CONSUMER_ID = -1
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_REPLICA_STATE = 15
MIN_EVICTION_AGE_MS = 120_000
NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13

TargetKey = tuple["TopicId | str", int]


class FetchClient(NamedTuple):
    """The sender of a Fetch, with those of its settings that hold for all partitions."""

    # Below 0 for consumers.
    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    # A consumer that is not to see records of open and aborted transactions.
    is_committed_only: bool = False
    # The rack of a consumer; empty if unknown, or without rack-aware selection (KIP-392).
    rack: str = ""
    # Consumers since version 11 may read from followers.
    reads_followers: bool = False


# The usual ones: consumers without rack-aware selection, by isolation level and whether they read from followers.
_CONSUMERS = {
    (committed_only, reads_followers): FetchClient(is_committed_only=committed_only, reads_followers=reads_followers)
    for committed_only in (False, True)
    for reads_followers in (False, True)
}


def fetch_client(body: Any, version: int, config: ServerConfig) -> FetchClient:
    """Return the sender of a Fetch request."""
    replica_id, broker_epoch = replica_of(body, version)
    reads_followers = version >= FIRST_VERSION_WITH_RACK
    is_committed_only = body.isolation_level == READ_COMMITTED
    if replica_id >= 0:
        return FetchClient(replica_id, broker_epoch)
    if config.replica_selector_class is None or not reads_followers:
        return _CONSUMERS[is_committed_only, reads_followers]
    rack = body.rack_id if selects_by_rack(config) else ""
    return FetchClient(CONSUMER_ID, -1, is_committed_only, rack, reads_followers)


def replica_of(body: Any, version: int) -> tuple[int, int]:
    """Return id and epoch of the broker that fetches, -1 for a consumer (KIP-903)."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return body.replica_id, -1
    state = body.replica_state
    return state.replica_id, state.replica_epoch


def selects_by_rack(config: ServerConfig) -> bool:
    """Return whether consumers are sent to the replicas of their rack."""
    return config.replica_selector_class == RACK_AWARE_SELECTOR


class SessionTarget:
    """One partition that a client reads, with what the client last received of it."""

    __slots__ = (
        "fetch_offset",
        "index",
        "known_high_watermark",
        "known_log_start",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.fetch_offset = 0
        # Where the log of a follower begins; consumers have none.
        self.log_start_offset = -1
        self.max_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.known_high_watermark = -1
        self.known_log_start = -1

    def update(self, wanted: Any) -> None:
        """Take over what the request says."""
        self.fetch_offset = wanted.fetch_offset
        self.log_start_offset = getattr(wanted, "log_start_offset", -1)
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = getattr(wanted, "current_leader_epoch", -1)
        self.last_fetched_epoch = getattr(wanted, "last_fetched_epoch", -1)


class FetchSession:
    """What the node remembers of one client's session."""

    __slots__ = ("created_ms", "epoch", "is_privileged", "last_used_ms", "session_id", "targets", "uses_topic_ids")

    def __init__(self, session_id: int, *, uses_topic_ids: bool, is_privileged: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        # Of a follower.
        self.is_privileged = is_privileged
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.targets: dict[TargetKey, SessionTarget] = {}


class FetchPlan(NamedTuple):
    """What a fetch request reads: its targets, and the session that filters the response, if any."""

    targets: list[SessionTarget]
    session: FetchSession | None
    # An incremental response leaves out partitions of which there is nothing new to say.
    incremental: bool

    @property
    def session_id(self) -> int:
        """Return the id that the response carries."""
        return self.session.session_id if self.session is not None else NO_SESSION


class FetchSessionCache:
    """All sessions of a node."""

    def __init__(self, *, max_sessions: int, rng: random.Random) -> None:
        self._max_sessions = max_sessions
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: Any, version: int, now_ms: int) -> FetchPlan:
        """Return what to read for a Fetch request and advance its session.

        Raises OperationError for an unknown session, a wrong epoch, or a change between names and topic ids.
        """
        session_id = getattr(request, "session_id", NO_SESSION)
        epoch = getattr(request, "session_epoch", FINAL_EPOCH)
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                self._sessions.pop(session_id, None)
            targets = _full_targets(request, version)
            session = None
            if epoch == INITIAL_EPOCH:
                is_privileged = replica_of(request, version)[0] >= 0
                session = self._create(targets, version, is_privileged=is_privileged, now_ms=now_ms)
            return FetchPlan(list(targets.values()), session, incremental=False)
        return self._continue(request, session_id, epoch, version=version, now_ms=now_ms)

    def _continue(self, request: Any, session_id: int, epoch: int, *, version: int, now_ms: int) -> FetchPlan:
        session = self._sessions.get(session_id)
        if session is None:
            raise OperationError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise OperationError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            raise OperationError(ErrorCode.fetch_session_topic_id_error)
        for key, wanted in _wanted_partitions(request, version):
            target = session.targets.get(key)
            if target is None:
                target = session.targets[key] = _new_target(key)
            target.update(wanted)
        for forgotten in request.forgotten_topics_data:
            topic: TopicId | str = _topic_key(forgotten, version)
            for index in forgotten.partitions:
                session.targets.pop((topic, index), None)
        if not session.targets:
            # Nothing is left to remember, as in Kafka: the client begins a new session when it wants one.
            del self._sessions[session_id]
            return FetchPlan([], None, incremental=False)
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_ms = now_ms
        # Dicts keep insertion order: moving the session to the end keeps the least recently used one first.
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return FetchPlan(list(session.targets.values()), session, incremental=True)

    def _create(
        self, targets: dict[TargetKey, SessionTarget], version: int, *, is_privileged: bool, now_ms: int
    ) -> FetchSession | None:
        if not targets or not self._make_room(is_privileged=is_privileged, now_ms=now_ms):
            return None
        session_id = self._rng.randint(1, MAX_EPOCH)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, MAX_EPOCH)
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = FetchSession(session_id, uses_topic_ids=uses_topic_ids, is_privileged=is_privileged, now_ms=now_ms)
        session.targets = targets
        self._sessions[session_id] = session
        return session

    def _make_room(self, *, is_privileged: bool, now_ms: int) -> bool:
        if len(self._sessions) < self._max_sessions:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms < MIN_EVICTION_AGE_MS:
            oldest = self._oldest_consumer() if is_privileged else None
        if oldest is None:
            return False
        del self._sessions[oldest.session_id]
        return True

    def _oldest_consumer(self) -> FetchSession | None:
        return next((each for each in self._sessions.values() if not each.is_privileged), None)


def remember_sent(session: FetchSession, sent_with_data: Iterable[SessionTarget]) -> None:
    """Move partitions that just gave data to the end, so that the others come first next time."""
    targets = session.targets
    for target in sent_with_data:
        key: TargetKey = (target.topic_id if session.uses_topic_ids else target.topic, target.index)
        if targets.get(key) is target:
            del targets[key]
            targets[key] = target


def _full_targets(request: Any, version: int) -> dict[TargetKey, SessionTarget]:
    targets: dict[TargetKey, SessionTarget] = {}
    for key, wanted in _wanted_partitions(request, version):
        target = targets[key] = _new_target(key)
        target.update(wanted)
    return targets


def _wanted_partitions(request: Any, version: int) -> Iterable[tuple[TargetKey, Any]]:
    for topic in request.topics:
        topic_key = _topic_key(topic, version)
        for wanted in topic.partitions:
            yield (topic_key, wanted.partition), wanted


def _topic_key(topic: Any, version: int) -> TopicId | str:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic_id: TopicId | None = topic.topic_id
        return topic_id if topic_id is not None else ZERO_UUID
    name: str = topic.topic
    return name


def _new_target(key: TargetKey) -> SessionTarget:
    topic, index = key
    if isinstance(topic, str):
        return SessionTarget(topic, ZERO_UUID, index)
    return SessionTarget("", topic, index)
