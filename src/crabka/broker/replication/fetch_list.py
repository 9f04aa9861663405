"""The partitions that one fetcher follows: which of them the next request asks for, and what an answer means for each.

A partition is looked at when something happened to it, never because others are fetched: an idle one costs nothing.
What to do, its `FollowerFetching` decides and `FollowerChanges` carries out. It knows no connections.
"""

from __future__ import annotations

import heapq
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.replication.follower_session import FollowerSession
from crabka.broker.replication.follower_state import (
    AppendFetched,
    AskLeaderRange,
    AskLeaderTier,
    CutFollowerLog,
    FetchAnswered,
    FetchFailed,
    LogRejected,
    RebuildFromTier,
    RestartLog,
    TakeLeaderOffsets,
)
from crabka.broker.replication.throttle import may_move
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.errors import InvariantError, OperationError
from crabka.formats.leader_epochs import EpochEnd
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.replication.followed import FollowedPartition
    from crabka.broker.replication.follower_changes import FollowerChanges
    from crabka.broker.replication.follower_session import FetchKey
    from crabka.broker.replication.follower_state import FollowerAction, FollowerEvent
    from crabka.broker.replication.throttle import ReplicationThrottle
    from crabka.config.server import ServerConfig
    from crabka.metadata.cluster import Endpoint
    from crabka.ports import Runtime, Spawn
    from crabka.protocol.hot.follower_fetch import FetchedBody, FetchedPartition

logger = logging.getLogger(__name__)


class BrokerAddress(NamedTuple):
    """Where other brokers reach a broker, and since which registration."""

    endpoint: Endpoint
    broker_epoch: int


class FetcherTools(NamedTuple):
    """What all fetchers of a node share."""

    runtime: Runtime
    identity: BrokerIdentity
    changes: FollowerChanges
    throttle: ReplicationThrottle
    config: Callable[[], ServerConfig]
    # None while a broker is not registered.
    address_of: Callable[[int], BrokerAddress | None]
    spawn: Spawn
    # Of connections to leaders.
    security: ClientSecurity = UNPROTECTED


class FetchList:
    """Partitions of one leader, and the session in which they are fetched. All methods run on the loop."""

    def __init__(self, tools: FetcherTools, on_work: Callable[[], None]) -> None:
        """`on_work` is called when the next request may have something to ask for that the last one had not."""
        self._tools = tools
        self._on_work = on_work
        self._followed: dict[FetchKey, FollowedPartition] = {}
        # Those whose position or readiness may have changed since the last request.
        self._touched: dict[FetchKey, None] = {}
        self._throttled: dict[FetchKey, None] = {}
        self._delayed: list[tuple[int, FetchKey]] = []
        self._cuts: list[tuple[FollowedPartition, CutFollowerLog]] = []
        self.session = FollowerSession()
        # The leader must be asked where its logs begin and end.
        self.out_of_range: list[FollowedPartition] = []
        # The leader must be asked from where on it has records that are not in the remote tier only.
        self.moved_to_tier: list[FollowedPartition] = []

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition, from the next request on."""
        self._followed[followed.key] = followed
        self._touch(followed)

    def remove(self, followed: FollowedPartition) -> None:
        """Follow a partition no longer; an answer or a change on its way does not count any more."""
        followed.is_current = False
        if self._followed.get(followed.key) is followed:
            del self._followed[followed.key]
            self.session.drop(followed.key)

    def clear(self) -> None:
        """Follow no partition any more."""
        for followed in list(self._followed.values()):
            self.remove(followed)

    def _touch(self, followed: FollowedPartition) -> None:
        if not self._touched:
            self._on_work()
        self._touched[followed.key] = None

    def choose(self) -> int | None:
        """Bring the session up to date; return how long it can stay as it is, None for as long as nothing happens."""
        now_ms = self._tools.runtime.clock.monotonic_ms()
        while self._delayed and self._delayed[0][0] <= now_ms:
            self._touched[heapq.heappop(self._delayed)[1]] = None
        if self._throttled:
            self._touched.update(self._throttled)
            self._throttled.clear()
        max_bytes = self._tools.config().replica_fetch_max_bytes
        for key in self._touched:
            followed = self._followed.get(key)
            if followed is None:
                continue
            if not followed.fetching.is_ready(now_ms):
                self.session.drop(key)
                until_ms = followed.fetching.delayed_until_ms
                if until_ms is not None:
                    heapq.heappush(self._delayed, (until_ms, key))
            elif not self._may_fetch(followed, now_ms):
                self.session.drop(key)
                self._throttled[key] = None
            else:
                self.session.want(key, followed.pack(max_bytes))
        self._touched.clear()
        waits = [self._delayed[0][0] - now_ms] if self._delayed else []
        if self._throttled:
            waits.append(self._tools.config().replica_fetch_backoff_ms)
        return min(waits, default=None)

    def _may_fetch(self, followed: FollowedPartition, now_ms: int) -> bool:
        throttle = self._tools.throttle
        if throttle.bytes_per_second is None:
            return True
        is_throttled = followed.is_throttled(self._tools.identity.node_id)
        return may_move(throttle, is_throttled=is_throttled, is_in_sync=followed.lag == 0, now_ms=now_ms)

    def take(self, body: FetchedBody) -> None:
        """Take an answer to the whole request, which has no error of its own."""
        now_ms = self._tools.runtime.clock.monotonic_ms()
        followed_by = self._followed
        for topic_id, rows in body.topics:
            for row in rows:
                followed = followed_by.get((topic_id, row.partition))
                if followed is not None:
                    self._answered(followed, row, now_ms)
        self._start_cuts()

    def _answered(self, followed: FollowedPartition, row: FetchedPartition, now_ms: int) -> None:
        if not self._tools.changes.counts(followed):
            # Its log dir has failed.
            self.remove(followed)
            return
        _, error_code, high_watermark, log_start_offset, records, diverging = row
        if followed.asked is None:
            return
        answer = FetchAnswered(
            asked=followed.asked,
            error_code=known_error(error_code),
            diverging=None if diverging is None else EpochEnd(*diverging),
            has_records=len(records) > 0,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
        )
        if error_code:
            logger.info(
                "Broker %d answers %s for %s-%d",
                followed.leader_id,
                answer.error_code.name,
                followed.partition.topic,
                followed.partition.index,
            )
        self._step(followed, answer, records, now_ms)
        if not error_code and diverging is None:
            followed.lag = max(0, high_watermark - followed.partition.log.log_end_offset)

    def _step(self, followed: FollowedPartition, event: FollowerEvent, records: memoryview | None, now_ms: int) -> None:
        partition = followed.partition
        for action in followed.fetching.step(event, partition.log, now_ms):
            self._carry_out(followed, action, records, now_ms)
        self._touch(followed)

    def _carry_out(
        self, followed: FollowedPartition, action: FollowerAction, records: memoryview | None, now_ms: int
    ) -> None:
        changes = self._tools.changes
        match action:
            case AppendFetched():
                if records is not None:
                    self._append(followed, action, records, now_ms)
            case TakeLeaderOffsets(high_watermark, log_start_offset):
                changes.take_offsets(followed.partition, high_watermark, log_start_offset, 0)
            case CutFollowerLog():
                self._cuts.append((followed, action))
            case RestartLog():
                self._tools.spawn(self._finish(followed, changes.restart(followed, action)))
            case AskLeaderRange():
                self.out_of_range.append(followed)
            case AskLeaderTier():
                self.moved_to_tier.append(followed)
            case RebuildFromTier():
                self._tools.spawn(self._finish(followed, changes.rebuild(followed, action)))

    def _append(self, followed: FollowedPartition, action: AppendFetched, records: memoryview, now_ms: int) -> None:
        tools = self._tools
        if tools.throttle.bytes_per_second is not None and followed.is_throttled(tools.identity.node_id):
            tools.throttle.record(len(records), now_ms)
        if not tools.changes.must_wait(followed.partition):
            try:
                event = tools.changes.append(followed, records, action)
            except Exception as error:  # noqa: BLE001 - it belongs to this partition alone
                event = _unexpected([followed], error)
            self._step(followed, event, None, now_ms)
            return
        try:
            change = tools.changes.append_later(followed, records, action)
        except OperationError:
            # Too much waits for a slow dir: it is fetched again when less does.
            self._step(followed, LogRejected(), None, now_ms)
        else:
            tools.spawn(self._finish(followed, change))

    async def _finish(self, followed: FollowedPartition, change: Coroutine[Any, Any, FollowerEvent | None]) -> None:
        """Wait for a change of a log and go on with the partition, whatever the outcome."""
        try:
            event = await change
        except Exception as error:  # noqa: BLE001 - it belongs to this partition alone
            event = _unexpected([followed], error)
        if event is not None and followed.is_current:
            self._step(followed, event, None, self._tools.runtime.clock.monotonic_ms())

    def _start_cuts(self) -> None:
        cuts, self._cuts = self._cuts, []
        if cuts:
            self._tools.spawn(self._cut(cuts))

    async def _cut(self, cuts: list[tuple[FollowedPartition, CutFollowerLog]]) -> None:
        outcomes: list[tuple[FollowedPartition, FollowerEvent]]
        try:
            outcomes = await self._tools.changes.cut(cuts)
        except Exception as error:  # noqa: BLE001 - it belongs to these partitions alone
            event = _unexpected([followed for followed, _ in cuts], error)
            outcomes = [(followed, event) for followed, _ in cuts]
        for followed, event in outcomes:
            if followed.is_current:
                self._step(followed, event, None, self._tools.runtime.clock.monotonic_ms())

    def pass_ranges(self, ranges: Mapping[FollowedPartition, FollowerEvent]) -> None:
        """Pass the range of the leader to partitions out of range; nothing for one of them if that is not known."""
        waiting, self.out_of_range = self.out_of_range, []
        self._pass(waiting, ranges)
        self._start_cuts()

    def pass_tiers(self, tiers: Mapping[FollowedPartition, FollowerEvent]) -> None:
        """Pass the leader's local log start to partitions whose records are in the tier; nothing if it is not known."""
        waiting, self.moved_to_tier = self.moved_to_tier, []
        self._pass(waiting, tiers)

    def give_up_asking(self) -> None:
        """Fail the partitions that wait for an answer."""
        self.pass_ranges({})
        self.pass_tiers({})

    def _pass(self, waiting: list[FollowedPartition], known: Mapping[FollowedPartition, FollowerEvent]) -> None:
        now_ms = self._tools.runtime.clock.monotonic_ms()
        for followed in waiting:
            if followed.is_current:
                self._step(followed, known.get(followed, FetchFailed()), None, now_ms)


def _unexpected(followed: Sequence[FollowedPartition], error: Exception) -> FollowerEvent:
    """Return what a change that failed otherwise means: it is tried again from what the log holds by then."""
    if isinstance(error, InvariantError):
        raise error
    names = ", ".join(f"{each.partition.topic}-{each.partition.index}" for each in followed)
    logger.error("Cannot change the logs of %s as their leader says: %r", names, error, exc_info=error)
    return LogRejected()


def known_error(code: int) -> ErrorCode:
    """Return an error code of a peer that may be newer and know others."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.unknown_server_error
