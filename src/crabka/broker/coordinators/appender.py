"""Appends records of a coordinator to their partition, as its leader and with acks=all.

A record in the log of the leader is valid as soon as it is replicated, however late: a coordinator that changes its
state by a record waits for the outcome without a limit, and only the request gets a timeout. No outcome stays unknown,
because a coordinator that stops leading drops all of its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.partition.leader_append import LeaderAppender
from crabka.log.producers.verification import ANY_TERMS
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.partition.partition import Partition
    from crabka.log.dirs.log_manager import LogManager
    from crabka.ports import Runtime, Spawn

    Done = Callable[[ErrorCode], None]
    Pair = tuple[bytes, bytes | None]

# Longer than any node runs.
WITHOUT_LIMIT_MS: Final = 1 << 40

_AS_SEEN_BY_CLIENTS = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def coordinator_error(error_code: ErrorCode) -> ErrorCode:
    """Return the error for the client of a failed append."""
    return _AS_SEEN_BY_CLIENTS.get(error_code, error_code)


def is_stored(error_code: ErrorCode) -> bool:
    """Return whether records are replicated, even if fewer replicas are in sync than the topic requires."""
    return error_code in (ErrorCode.none, ErrorCode.not_enough_replicas_after_append)


class AppendSettings(NamedTuple):
    """The format of the batches of one coordinator, and the limit of their replication."""

    codec: int
    timeout_ms: int
    base_sequence: int


class Appender:
    """Writes for one coordinator of a node."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        spawn: Spawn,
        settings: Callable[[], AppendSettings],
    ) -> None:
        self._clock = runtime.clock
        self._leader = LeaderAppender(runtime, logs, spawn)
        self._settings = settings

    def append(self, partition: Partition, pairs: Sequence[Pair], done: Done) -> None:
        """Append the records as one batch; `done` gets the outcome, immediately if it is known.

        The outcome of appended records is known when they are replicated or this node stops leading the partition.
        """

        def outcome(error_code: ErrorCode) -> None:
            done(ErrorCode.none if is_stored(error_code) else error_code)

        self._append(partition, pairs, outcome, WITHOUT_LIMIT_MS)

    def append_in_time(self, partition: Partition, pairs: Sequence[Pair], done: Done) -> None:
        """As `append`, but `done` gets REQUEST_TIMED_OUT after the limit, although the records may stay."""
        self._append(partition, pairs, done, self._settings().timeout_ms)

    def _append(self, partition: Partition, pairs: Sequence[Pair], done: Done, timeout_ms: int) -> None:
        now_ms = self._clock.now_ms()
        settings = self._settings()
        batch = build_batch(
            [Record(index, now_ms, key, value) for index, (key, value) in enumerate(pairs)],
            codec=settings.codec,
            base_sequence=settings.base_sequence,
        )
        self._leader.append(partition, batch, ANY_TERMS, done, timeout_ms=timeout_ms)
