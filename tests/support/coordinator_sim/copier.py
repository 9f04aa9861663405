"""A transactional copier (KIP-98, KIP-447, KIP-890): its share of the input goes to the output, exactly once.

Record i of input partition p is `p:i`, so that it need not be read. Output and position go into one transaction. A
copier that is in doubt starts over: it gets a new producer epoch, which ends what was open, and asks for its position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crabka.errors import CrabkaError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record
from tests.support.coordinator_sim.classic_member import EagerMember
from tests.support.coordinator_sim.ledger import SESSION_MS, Ledger, Place
from tests.support.coordinator_sim.member import RETRY_S
from tests.support.power_loss.machine import Machine

OUTPUT = "out"
RECORDS_PER_PARTITION = 40
TRANSACTION_TIMEOUT_MS = 8_000
ATTEMPTS = 25
RETRIABLE = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
    }
)
# The last versions of clients that name every partition of a transaction to the coordinator (transaction version 1).
OLD_CLIENT = {
    ApiKey.PRODUCE: 11,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
}
NEW_CLIENT = {ApiKey.PRODUCE: 12}


class AbandonedError(Exception):
    """The transaction cannot go on with this producer."""


@dataclass
class Epoch:
    """What InitProducerId gave, and how far the sequences went."""

    producer_id: int
    producer_epoch: int
    sequences: dict[int, int] = field(default_factory=dict)


def value_of(partition: int, number: int) -> bytes:
    """Return the record of an input partition."""
    return b"%d:%d" % (partition, number)


class Copier(EagerMember):
    """One copier with a transactional id."""

    def __init__(
        self, transactional_id: str, group_id: str, machine: Machine, ledger: Ledger, places: Sequence[Place]
    ) -> None:
        super().__init__(f"{transactional_id}/{machine.rng.getrandbits(16):04x}", group_id, machine, ledger, places)
        self.transactional_id = transactional_id
        self._versions = self.rng.choice([OLD_CLIENT, NEW_CLIENT])
        self._epoch: Epoch | None = None
        self.commits = 0
        self.aborts = 0

    async def work(self) -> None:
        """Copy a little, in one transaction."""
        todo = {place: self._ahead(place) for place in sorted(self.assigned) if self.rng.random() < 0.6}
        todo = {place: count for place, count in todo.items() if count}
        if not todo:
            return
        try:
            if self._epoch is None:
                await self._initialize()
            await self._transact(todo)
        except AbandonedError as reason:
            self.machine.trace.note(f"{self.name} starts over: {reason}")
            self._epoch = None
            await self._initialize()

    def _ahead(self, place: Place) -> int:
        return min(self.rng.randrange(1, 7), RECORDS_PER_PARTITION - self.positions[place])

    async def _initialize(self) -> None:
        while True:
            try:
                answer = await self.line.ask(
                    ApiKey.INIT_PRODUCER_ID,
                    lambda types: types.message(
                        transactional_id=self.transactional_id,
                        transaction_timeout=TRANSACTION_TIMEOUT_MS,
                        producer_id=-1,
                        producer_epoch=-1,
                    ),
                    max_version=5,
                )
            except CrabkaError:
                await asyncio.sleep(RETRY_S)
                continue
            if answer.error_code is ErrorCode.none:
                self._epoch = Epoch(answer.producer_id, answer.producer_epoch)
                self.machine.trace.note(f"{self.name} is producer {answer.producer_id}/{answer.producer_epoch}")
                # What was open is decided now; the position may be another.
                self.positions.update(await self.committed(set(self.assigned)))
                return
            self.machine.trace.require(
                ErrorCode(answer.error_code) in RETRIABLE, "a copier can start over", ErrorCode(answer.error_code).name
            )
            await asyncio.sleep(RETRY_S)

    async def _transact(self, counts: dict[Place, int]) -> None:
        # The position is the coordinator's to tell: it may have moved while the producer was initialized.
        todo = {
            place: range(self.positions[place], min(self.positions[place] + count, RECORDS_PER_PARTITION))
            for place, count in counts.items()
        }
        todo = {place: numbers for place, numbers in todo.items() if numbers}
        if not todo:
            return
        if self._versions is OLD_CLIENT:
            await self._add_partitions(todo)
        for place, numbers in todo.items():
            await self._produce(place[1], numbers)
            await self._maybe_stall()
        commits = self.rng.random() < 0.85
        ends = {place: numbers.stop for place, numbers in todo.items()}
        if commits:
            for place, offset in ends.items():
                self.ledger.note_commit(self.group_id, place, offset, acknowledged=False)
            await self._send_offsets(ends)
            await self._maybe_stall()
        await self._end(commits=commits)
        if commits:
            self.commits += 1
            self.positions.update(ends)
            for place, offset in ends.items():
                self.ledger.note_commit(self.group_id, place, offset, acknowledged=True)
        else:
            self.aborts += 1

    async def _maybe_stall(self) -> None:
        if self._pauses and self.rng.random() < 0.03:
            stall_ms = self.rng.uniform(0.2, 2) * SESSION_MS
            self.machine.trace.note(f"{self.name} stalls in a transaction for {stall_ms:.0f} ms")
            await asyncio.sleep(stall_ms / 1000)

    # -- requests ------------------------------------------------------------------------------------------------

    async def _insist(self, api_key: ApiKey, build: Any, code_of: Any) -> Any:
        """Repeat a request until it is answered for good. Raises AbandonedError on any error that stays."""
        last = "no answer"
        for _ in range(ATTEMPTS):
            try:
                answer = await self.line.ask(api_key, build, max_version=self._versions.get(api_key))
            except CrabkaError as error:
                last = str(error)
            else:
                codes = {ErrorCode(code) for code in code_of(answer)} - {ErrorCode.none}
                if not codes:
                    return answer
                last = ", ".join(code.name for code in codes)
                if not codes <= RETRIABLE:
                    break
            await asyncio.sleep(RETRY_S)
        raise AbandonedError(f"{api_key.name}: {last}")

    def _identity(self) -> dict[str, Any]:
        assert self._epoch is not None
        return {"producer_id": self._epoch.producer_id, "producer_epoch": self._epoch.producer_epoch}

    async def _add_partitions(self, todo: dict[Place, range]) -> None:
        fields = {f"v3_and_below_{name}": value for name, value in self._identity().items()}

        def build(types: Any) -> Any:
            topic = types.new("AddPartitionsToTxnTopic", name=OUTPUT, partitions=[index for _, index in todo])
            return types.message(
                v3_and_below_transactional_id=self.transactional_id, v3_and_below_topics=[topic], **fields
            )

        await self._insist(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            build,
            lambda answer: [
                row.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ],
        )

    async def _produce(self, partition: int, numbers: range) -> None:
        assert self._epoch is not None
        sequence = self._epoch.sequences.get(partition, 0)
        now_ms = self.machine.clock.now_ms()
        batch = build_batch(
            [Record(index, now_ms, None, value_of(partition, number)) for index, number in enumerate(numbers)],
            base_sequence=sequence,
            transactional=True,
            **self._identity(),
        )

        def build(types: Any) -> Any:
            data = types.new("PartitionProduceData", index=partition, records=batch)
            topic = types.new("TopicProduceData", name=OUTPUT, partition_data=[data])
            return types.message(transactional_id=self.transactional_id, acks=-1, timeout=1_500, topic_data=[topic])

        await self._insist(
            ApiKey.PRODUCE,
            build,
            lambda answer: [row.error_code for topic in answer.responses for row in topic.partition_responses],
        )
        self._epoch.sequences[partition] = sequence + len(numbers)

    async def _send_offsets(self, offsets: dict[Place, int]) -> None:
        if self._versions is OLD_CLIENT:
            await self._insist(
                ApiKey.ADD_OFFSETS_TO_TXN,
                lambda types: types.message(
                    transactional_id=self.transactional_id, group_id=self.group_id, **self._identity()
                ),
                lambda answer: [answer.error_code],
            )

        def build(types: Any) -> Any:
            rows = [
                types.new(
                    "TxnOffsetCommitRequestPartition",
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
                for (_, index), offset in offsets.items()
            ]
            (name,) = {topic for topic, _ in offsets}
            return types.message(
                transactional_id=self.transactional_id,
                group_id=self.group_id,
                generation_id=self.epoch,
                member_id=self.member_id,
                group_instance_id=None,
                topics=[types.new("TxnOffsetCommitRequestTopic", name=name, partitions=rows)],
                **self._identity(),
            )

        await self._insist(
            ApiKey.TXN_OFFSET_COMMIT,
            build,
            lambda answer: [row.error_code for topic in answer.topics for row in topic.partitions],
        )

    async def _end(self, *, commits: bool) -> None:
        answer = await self._insist(
            ApiKey.END_TXN,
            lambda types: types.message(transactional_id=self.transactional_id, committed=commits, **self._identity()),
            lambda answer: [answer.error_code],
        )
        if self._versions is NEW_CLIENT:
            self._epoch = Epoch(answer.producer_id, answer.producer_epoch)
