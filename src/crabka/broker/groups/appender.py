"""Appends records of the coordinator to the partition that keeps them, as its leader and with acks=all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.purgatory import DelayedProduce
from crabka.errors import OperationError, StorageError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from crabka.broker.groups.records import Pair
    from crabka.broker.partition import Partition
    from crabka.config.server import ServerConfig
    from crabka.log.append import AppendResult
    from crabka.log.log_manager import LogManager
    from crabka.ports import Runtime
    from crabka.records.header import BatchHeader

    Done = Callable[[ErrorCode], None]

# Kafka numbers the records of its coordinators though they have no producer.
_BASE_SEQUENCE = 0

_AS_SEEN_BY_MEMBERS = {
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
    """Return what a member is told when an append failed."""
    return _AS_SEEN_BY_MEMBERS.get(error_code, error_code)


class Appender:
    """Writes for the coordinators of one node."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]],
        config: Callable[[], ServerConfig],
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._spawn = spawn
        self._config = config

    def append(self, partition: Partition, pairs: Sequence[Pair], done: Done) -> None:
        """Append the records as one batch; `done` hears how it went, at once if nothing has to be waited for."""
        now_ms = self._runtime.clock.now_ms()
        batch = build_batch(
            [Record(index, now_ms, key, value) for index, (key, value) in enumerate(pairs)],
            codec=self._config().offsets_topic_compression_codec,
            base_sequence=_BASE_SEQUENCE,
        )
        header = parse_header(batch)
        try:
            partition.require_leader()
            partition.require_min_isr()
            if len(batch) > partition.log.config.max_message_bytes:
                raise OperationError(ErrorCode.message_too_large)
            if partition.must_queue(len(batch), header):
                append = partition.append_queued(self._runtime.threads, batch, header, now_ms)
                self._spawn(self._append_later(partition, append, done))
                return
            result = self._append_now(partition, batch, header, now_ms)
        except (OperationError, StorageError) as error:
            done(self._error_code(error))
            return
        self._replicated(partition, result, done)

    def _append_now(self, partition: Partition, batch: bytes, header: BatchHeader, now_ms: int) -> AppendResult:
        result = partition.append(batch, header, now_ms)
        elapsed_ms = self._runtime.clock.now_ms() - now_ms
        if elapsed_ms > partition.writer.slow_append_ms:
            partition.writer.note_append(elapsed_ms)
        return result

    async def _append_later(self, partition: Partition, append: Coroutine[Any, Any, AppendResult], done: Done) -> None:
        try:
            result = await append
        except (OperationError, StorageError) as error:
            done(self._error_code(error))
            return
        self._replicated(partition, result, done)

    def _error_code(self, error: OperationError | StorageError) -> ErrorCode:
        if isinstance(error, StorageError):
            self._logs.on_dir_failure(error.log_dir, error)
            return ErrorCode.kafka_storage_error
        return error.error_code

    def _replicated(self, partition: Partition, result: AppendResult, done: Done) -> None:
        end_offset = result.last_offset + 1
        if partition.log.high_watermark >= end_offset:
            done(ErrorCode.none)
            return

        def complete() -> None:
            done(next(iter(waiting.failures.values()), ErrorCode.none))

        waiting = DelayedProduce(complete, {partition: end_offset})
        waiting.start(self._config().offsets_commit_timeout_ms)
