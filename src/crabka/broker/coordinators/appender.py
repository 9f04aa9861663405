"""Appends records of a coordinator to the partition that keeps them, as its leader and with acks=all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.purgatory import DelayedProduce
from crabka.errors import OperationError, StorageError
from crabka.log.append import prepared_as_built
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from crabka.broker.partition import Partition
    from crabka.log.append import AppendResult, PreparedBatch
    from crabka.log.log_manager import LogManager
    from crabka.ports import Runtime
    from crabka.records.header import BatchHeader

    Done = Callable[[ErrorCode], None]
    Pair = tuple[bytes, bytes | None]

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
    """Return what a client is told when an append failed."""
    return _AS_SEEN_BY_CLIENTS.get(error_code, error_code)


class AppendSettings(NamedTuple):
    """How the batches of one coordinator look, and how long their replication may take."""

    codec: int
    timeout_ms: int
    base_sequence: int


class Appender:
    """Writes for one coordinator of a node."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]],
        settings: Callable[[], AppendSettings],
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._spawn = spawn
        self._settings = settings

    def append(self, partition: Partition, pairs: Sequence[Pair], done: Done) -> None:
        """Append the records as one batch; `done` hears how it went, at once if nothing has to be waited for."""
        now_ms = self._runtime.clock.now_ms()
        settings = self._settings()
        batch = build_batch(
            [Record(index, now_ms, key, value) for index, (key, value) in enumerate(pairs)],
            codec=settings.codec,
            base_sequence=settings.base_sequence,
        )
        header = parse_header(batch)
        # The node need not look into what it built itself, though the topic is compacted.
        prepared = prepared_as_built(batch, header, partition.log.config)
        try:
            partition.require_leader()
            partition.require_min_isr()
            if len(batch) > partition.log.config.max_message_bytes:
                raise OperationError(ErrorCode.message_too_large)
            if partition.must_queue(len(batch), header, is_prepared=prepared is not None):
                append = partition.append_queued(self._runtime.threads, batch, header, now_ms, prepared=prepared)
                self._spawn(self._append_later(partition, append, done))
                return
            result = self._append_now(partition, batch, header, prepared)
        except (OperationError, StorageError) as error:
            done(self._error_code(error))
            return
        self._replicated(partition, result, done)

    def _append_now(
        self, partition: Partition, batch: bytes, header: BatchHeader, prepared: PreparedBatch | None
    ) -> AppendResult:
        now_ms = self._runtime.clock.now_ms()
        result = partition.append(batch, header, now_ms, prepared=prepared)
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
        waiting.start(self._settings().timeout_ms)
