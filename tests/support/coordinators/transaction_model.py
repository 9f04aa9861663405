"""Many transactional producers on one log, and what a reader of committed records must see of them."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OperationError
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.log.producers.verification import ANY_TERMS, AppendTerms, Verification
from crabka.log.recovery.recovery import OpenOptions
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import iter_headers
from tests.support.storage.small import NOW_MS, ProducerFields, make_batch, make_context, open_test_log


class ModelBatch(NamedTuple):
    """A batch in the log: its first offset and whose transaction it is part of, None if of none."""

    offset: int
    transaction: int | None


class ModelProducer:
    """A producer as its client and its coordinator see it."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.transaction: int | None = None
        self.guard: Verification | None = None


class TransactionWorld:
    """A log with its model. `step` does something, `check` compares."""

    def __init__(self, rng: random.Random, producers: int = 4) -> None:
        self._rng = rng
        self._context = make_context()
        self._config = TopicConfig(segment_bytes=2_000)
        self.log: PartitionLog = open_test_log(self._context, self._config)
        self._producers = [ModelProducer(100 + index) for index in range(producers)]
        self._batches: list[ModelBatch] = []
        # Transaction -> committed or not; without an entry it is open.
        self._ends: dict[int, bool] = {}
        self._next_transaction = 0

    def step(self) -> None:
        """Do one thing that clients, a coordinator or an operator do."""
        producer = self._rng.choice(self._producers)
        choice = self._rng.random()
        if choice < 0.5:
            self._write(producer)
        elif choice < 0.75:
            self._end(producer, commit=self._rng.random() < 0.5)
        elif choice < 0.85:
            self._note(self._append(make_batch(self._rng.randint(1, 3))), None)
        elif choice < 0.93:
            self._send_late(producer)
        else:
            self.reopen(clean=self._rng.random() < 0.5)

    def reopen(self, *, clean: bool) -> None:
        """Close the log and open it again, after a clean stop or with everything checked."""
        self.log.flush()
        self.log.close(clean=clean)
        options = OpenOptions(clean=clean, now_ms=NOW_MS, recovery_point=self.log.recovery_point if clean else 0)
        self.log = open_test_log(self._context, self._config, options)
        self.log.set_high_watermark(self.log.log_end_offset)
        for producer in self._producers:
            # Questions to the coordinator do not outlive the node.
            producer.guard = None

    def committed_offsets(self) -> list[int]:
        """Return the first offsets of the batches that a reader of committed records must get now."""
        unstable = [
            batch.offset
            for batch in self._batches
            if batch.transaction is not None and batch.transaction not in self._ends
        ]
        end = min(unstable, default=self.log.log_end_offset)
        return [
            batch.offset
            for batch in self._batches
            if batch.offset < end and (batch.transaction is None or self._ends.get(batch.transaction, False))
        ]

    def read_committed(self, start: int = 0) -> list[int]:
        """Return the first offsets of the batches that a consumer under read_committed hands on."""
        log, found, offset = self.log, [], start
        while offset < log.last_stable_offset:
            data = log.read(offset, max_bytes=600, upper_offset=log.last_stable_offset).read()
            aborted = {
                (each.producer_id, each.first_offset): each.last_offset
                for each in log.reads.aborted_transactions(offset, log.last_stable_offset)
            }
            for _, header in iter_headers(data):
                dropped = any(
                    producer_id == header.producer_id and first <= header.base_offset <= last
                    for (producer_id, first), last in aborted.items()
                )
                if not header.is_control and not (dropped and header.is_transactional):
                    found.append(header.base_offset)
                offset = header.next_offset
        return found

    def check(self) -> None:
        """Compare what is read with what must be read."""
        expected = self.committed_offsets()
        assert self.read_committed() == expected
        if expected:
            start = self._rng.choice(expected)
            assert self.read_committed(start) == [offset for offset in expected if offset >= start]

    def _write(self, producer: ModelProducer) -> None:
        state = self.log.producer_state
        guard = state.begin_verification(
            producer.producer_id,
            producer.epoch,
            sequence=producer.sequence,
            now_ms=NOW_MS,
            supports_epoch_bump=True,
        )
        assert (guard is None) == (producer.transaction is not None)
        count = self._rng.randint(1, 3)
        fields = ProducerFields(producer.producer_id, producer.epoch, producer.sequence)
        offset = self._append(make_batch(count, producer=fields, transactional=True), AppendTerms(guard))
        if producer.transaction is None:
            producer.transaction = self._next_transaction
            self._next_transaction += 1
        producer.sequence += count
        self._note(offset, producer.transaction)

    def _end(self, producer: ModelProducer, *, commit: bool) -> None:
        bumps = self._rng.random() < 0.7 or producer.transaction is None
        epoch = producer.epoch + 1 if bumps else producer.epoch
        batch = build_end_transaction_batch(
            EndTransactionMarker(commit, coordinator_epoch=0),
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            timestamp=NOW_MS,
        )
        terms = AppendTerms(transaction_version=2 if bumps else 1)
        for _ in range(self._rng.choice((1, 1, 2))):
            # A retry writes the same marker again.
            self.log.append_as_leader(
                batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, terms=terms
            )
        self.log.set_high_watermark(self.log.log_end_offset)
        if producer.transaction is not None:
            self._ends[producer.transaction] = commit
        producer.transaction = None
        if bumps:
            producer.epoch, producer.sequence = epoch, 0

    def _send_late(self, producer: ModelProducer) -> None:
        """Bring a batch of an ended transaction: of an old epoch, or with the guard of a question long forgotten."""
        stale = Verification(producer.epoch, 0, 0, supports_epoch_bump=True)
        is_old = producer.epoch > 0 and self._rng.random() < 0.5
        if not is_old and producer.transaction is not None:
            return
        epoch = producer.epoch - 1 if is_old else producer.epoch
        fields = ProducerFields(producer.producer_id, epoch, producer.sequence if not is_old else 1_000)
        batch = make_batch(1, producer=fields, transactional=True)
        with pytest.raises(OperationError) as refusal:
            self._append(batch, AppendTerms(stale))
        assert refusal.value.error_code in {ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_epoch}

    def _append(self, batch: bytes, terms: AppendTerms = ANY_TERMS) -> int:
        result = self.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, terms=terms)
        self.log.set_high_watermark(self.log.log_end_offset)
        return result.first_offset

    def _note(self, offset: int, transaction: int | None) -> None:
        self._batches.append(ModelBatch(offset, transaction))
