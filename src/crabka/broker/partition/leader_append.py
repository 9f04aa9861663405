"""Appends a batch that the node built to a partition as its leader, with acks=all: markers, records of coordinators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, ReachedOffsets, replicated
from crabka.errors import InvariantError, OperationError, StorageError
from crabka.log.partition.append import prepared_as_built
from crabka.log.producers.producer_state import AppendOrigin
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from crabka.broker.partition.partition import Partition
    from crabka.log.dirs.log_manager import LogManager
    from crabka.log.partition.append import AppendResult
    from crabka.log.producers.verification import AppendTerms
    from crabka.ports import Runtime, Spawn

    Done = Callable[[ErrorCode], None]


logger = logging.getLogger(__name__)


class LeaderAppender:
    """Writes batches of the node itself."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        spawn: Spawn,
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._spawn = spawn

    def append(self, partition: Partition, batch: bytes, terms: AppendTerms, done: Done, *, timeout_ms: int) -> None:
        """Append a batch; `done` receives the outcome, at once if nothing has to be waited for.

        `done` is called in the order of the log.
        """
        header = parse_header(batch)
        now_ms = self._runtime.clock.now_ms()
        origin = AppendOrigin.COORDINATOR
        try:
            partition.require_leader()
            partition.require_min_isr()
            if len(batch) > partition.log.config.max_message_bytes and not header.is_control:
                raise OperationError(ErrorCode.message_too_large)
            # The node need not look into what it built itself, though the topic is compacted.
            prepared = None if header.is_control else prepared_as_built(batch, header, partition.log.config)
            if partition.queue.is_needed(len(batch), header, is_prepared=prepared is not None):
                append = partition.queue.append(
                    self._runtime.threads, batch, header, now_ms, origin=origin, terms=terms, prepared=prepared
                )
                self._spawn(self._append_later(partition, append, done, timeout_ms))
                return
            result = partition.append(batch, header, now_ms, terms=terms, origin=origin, prepared=prepared)
        except (OperationError, StorageError) as error:
            done(self._error_code(error))
            return
        self._replicated(partition, result, done, timeout_ms)

    async def _append_later(
        self, partition: Partition, append: Coroutine[Any, Any, AppendResult], done: Done, timeout_ms: int
    ) -> None:
        try:
            result = await append
        except (OperationError, StorageError) as error:
            done(self._error_code(error))
            return
        except InvariantError:
            raise
        except Exception:
            # Nothing waits for this task: without a call of `done` the caller would wait for ever.
            logger.exception("Cannot append to %s-%d", partition.topic, partition.index)
            done(ErrorCode.unknown_server_error)
            return
        self._replicated(partition, result, done, timeout_ms)

    def _error_code(self, error: OperationError | StorageError) -> ErrorCode:
        if isinstance(error, StorageError):
            self._logs.on_dir_failure(error.log_dir, error)
            return ErrorCode.kafka_storage_error
        return error.error_code

    def _replicated(self, partition: Partition, result: AppendResult, done: Done, timeout_ms: int) -> None:
        # Its outcome must not be in doubt: it counts as soon as this log keeps it, though the epoch rises meanwhile.
        required = RequiredOffset(result.last_offset + 1, result.leader_epoch, spans_epochs=True)
        is_next = partition.replication is None and not partition.queue.pending_outcomes
        if is_next and partition.acknowledgement(required) is ErrorCode.none:
            done(ErrorCode.none)
            return

        def complete() -> None:
            partition.queue.pending_outcomes -= 1
            done(next(iter(condition.failures.values()), ErrorCode.none))

        # It may be replicated already. Its turn is still after those who wait, and whose completion is scheduled.
        partition.queue.pending_outcomes += 1
        condition = ReachedOffsets({partition: required}, replicated)
        Delayed(complete, condition).start(timeout_ms)
