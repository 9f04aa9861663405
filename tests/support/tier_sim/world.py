"""Random histories: produce, elect, truncate, retain, delete, crash and break, then look whether all is as owed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from crabka.errors import OperationError
from crabka.log.producers.producer_state import AppendOrigin
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import parse_header
from crabka.remote.errors import RemoteBackendError
from crabka.testing.faulty_storage import StorageFault
from tests.support.storage.small import ProducerFields, make_batch
from tests.support.tier_sim.checks import check_readable, check_settled, is_tidy
from tests.support.tier_sim.cluster import GRACE_MS, NODE_IDS, TierCluster
from tests.support.tier_sim.model import ViolationError, batches_in
from tests.support.tier_sim.node import TierNode

STEPS = 60
COPY_PLACES = ("copy.before_started", "copy.after_started", "copy.after_upload", "copy.after_finished")
CRASH_PLACES = (
    "retention.before_log_start",
    "retention.after_log_start",
    "delete.before_started",
    "delete.after_started",
    "delete.after_data",
    "delete.after_finished",
    "delete_partition.before_marked",
    "delete_partition.after_marked",
    "delete_partition.after_started",
    "delete_partition.before_finished",
    "purge.after_announced",
    "purge.after_committed",
    "purge.before_finished",
)
PLAIN, IDEMPOTENT, TRANSACTIONAL = -1, 1, 9


class TierHistoryWorld:
    """One history."""

    def __init__(self, seed: int, steps: int = STEPS, *, loses_disks: bool = False) -> None:
        """With `loses_disks` the last replica in sync may come back with an empty disk, and leads."""
        self.loses_disks = loses_disks
        self.cluster = TierCluster(seed)
        self.rng = self.cluster.rng
        self.steps = steps
        self.trace: list[str] = []
        # Producers get a new id when an unclean election may have lost what they wrote.
        self.generation = 0
        self._generation_of_unclean = 0
        self._faults: list[StorageFault] = []
        self.quiet_count = 0

    def run(self) -> None:
        """Live the whole history. Raises ViolationError."""
        try:
            self.cluster.loop.run(self._main())
        except BaseException as error:
            error.add_note("\n".join(self.trace[-40:]))
            raise

    async def _main(self) -> None:
        cluster = self.cluster
        for node in cluster.nodes.values():
            await node.start()
        cluster.isr = set(NODE_IDS)
        cluster.elect(1)
        work: dict[Callable[[], Awaitable[None]], int] = {
            self.produce: 30,
            self.replicate: 20,
            self.wait: 14,
            self.keep_house: 16,
            self.end_transaction: 12,
            self.roll: 3,
            self.clean_election: 5,
            self.unclean_election: 4,
            self.crash: 4,
            self.arm_crash: 5,
            self.restart: 6,
            self.shrink: 5,
            self.break_storage: 5,
            self.heal_storage: 4,
            self.end_zombies: 4,
            self.set_limits: 5,
            self.set_local_limits: 4,
            self.delete_records: 2,
            self.move_owner: 2,
            self.toggle_copying: 1,
            self.toggle_tiering: 1,
            self.reconsider_tiering: 2,
            self.recreate: 1,
            self.quiet: 5,
        }
        if self.loses_disks:
            work[self.lose_last_disk] = 2
        names, weights = list(work), list(work.values())
        for _ in range(self.steps):
            (step,) = self.rng.choices(names, weights)
            self._note(step.__name__)
            await step()
            cluster.check_always()
        await self.settle()
        for node in cluster.up:
            await node.stop()

    def _note(self, what: str) -> None:
        """Note a step, and how all logs are before it: log start, local start, high watermark, end, end of the tier."""
        cluster = self.cluster
        logs = " ".join(self._described(node) for node in cluster.up if node.partition is not None)
        now_ms, epoch, isr = cluster.clock.now_ms(), cluster.leader_epoch, sorted(cluster.isr)
        self.trace.append(f"{now_ms} {what}, epoch {epoch} isr {isr}: {logs}")

    def _described(self, node: TierNode) -> str:
        log, node_id = node.log, node.node_id
        role = "L" if node_id == self.cluster.leader_id else "Z" if node_id in self.cluster.zombies else ""
        places = (log.log_start_offset, log.local_log_start_offset, log.high_watermark, log.log_end_offset)
        return f"{node_id}{role}{[*places, log.tiering.highest_remote_offset]}"

    # -- clients -------------------------------------------------------------------------------------------------

    async def produce(self) -> None:
        """Append a few batches to the leader, or to a node that believes to lead."""
        for _ in range(self.rng.randrange(1, 12)):
            node = self._believer()
            if node is None:
                return
            self._append(node, self.rng.choice([PLAIN, PLAIN, IDEMPOTENT, IDEMPOTENT, TRANSACTIONAL]))
        self.cluster.advance()

    def _believer(self) -> TierNode | None:
        zombies = [self.cluster.nodes[each] for each in sorted(self.cluster.zombies)]
        return self.rng.choice(zombies) if zombies and self.rng.random() < 0.2 else self.cluster.leader

    def _append(self, node: TierNode, kind: int) -> None:
        producer = None
        if kind != PLAIN:
            producer_id = self._producer_id(kind)
            entry = node.log.producer_state.entries.get(producer_id)
            wanted = self._next_sequence(node, producer_id)
            producer = ProducerFields(producer_id, entry.producer_epoch if entry else 0, wanted)
        batch = make_batch(
            self.rng.randrange(1, 5),
            value_bytes=self.rng.randrange(10, 120),
            timestamp=self.cluster.clock.now_ms(),
            producer=producer,
            transactional=kind == TRANSACTIONAL,
        )
        self._write(node, batch, AppendOrigin.CLIENT)

    def _producer_id(self, kind: int) -> int:
        if self.cluster.unclean_count != self._generation_of_unclean:
            self._generation_of_unclean = self.cluster.unclean_count
            self.generation += 1
        return kind + 100 * self.generation

    def _next_sequence(self, node: TierNode, producer_id: int) -> int:
        """Return what a producer has to send next; the node must know it from its own log, local or not."""
        entry = node.log.producer_state.entries.get(producer_id)
        known = entry.last_sequence + 1 if entry is not None else 0
        sent = [batch for batch in self.cluster.model.lineage(node.log) if batch.producer_id == producer_id]
        if sent and producer_id % 100 == IDEMPOTENT and known != parse_header(sent[-1].data).last_sequence + 1:
            raise ViolationError(f"node {node.node_id} expects {known} of producer {producer_id} after {sent[-1].key}")
        return known

    def _write(self, node: TierNode, batch: bytes, origin: AppendOrigin) -> None:
        partition, log = node.partition, node.log
        assert partition is not None
        before = log.log_end_offset
        try:
            log.append_as_leader(
                batch, leader_epoch=partition.leader_epoch, now_ms=self.cluster.clock.now_ms(), origin=origin
            )
        except OperationError as error:
            raise ViolationError(f"node {node.node_id} refuses an append: {error!r}") from error
        for each in batches_in(bytes(log.read(before, max_bytes=1 << 20).read())):
            self.cluster.model.note_written(each)

    async def end_transaction(self) -> None:
        """End what is open on the leader."""
        leader = self.cluster.leader
        if leader is None:
            return
        for producer_id, entry in sorted(leader.log.producer_state.entries.items()):
            if entry.current_txn_first_offset is not None:
                marker = EndTransactionMarker(committed=self.rng.random() < 0.5, coordinator_epoch=0)
                if not marker.committed:
                    key = (self.cluster.leader_epoch, leader.log.log_end_offset)
                    self.cluster.model.aborted[key] = (producer_id, entry.current_txn_first_offset)
                batch = build_end_transaction_batch(
                    marker,
                    producer_id=producer_id,
                    producer_epoch=entry.producer_epoch + 1,
                    timestamp=self.cluster.clock.now_ms(),
                )
                self._write(leader, batch, AppendOrigin.COORDINATOR)
        self.cluster.advance()

    async def delete_records(self) -> None:
        """Ask the leader to delete records."""
        leader = self.cluster.leader
        if leader is None:
            return
        log = leader.log
        offset = self.rng.randint(log.log_start_offset, log.high_watermark)
        model = self.cluster.model
        model.let_go(batch.key for batch in model.lineage(log) if batch.last_offset < offset)
        log.retention.delete_records_before(offset)

    # -- brokers -------------------------------------------------------------------------------------------------

    async def replicate(self) -> None:
        """Let followers fetch."""
        await self.cluster.replicate(self.rng.randrange(1, 6))

    async def wait(self) -> None:
        """Let time pass, in which tasks run."""
        await asyncio.sleep(self.rng.choice([0.01, 0.3, 1.1, 2.5]))

    async def keep_house(self) -> None:
        """Let a node do its duties."""
        if self.cluster.up:
            node = self.rng.choice(self.cluster.up)
            await self.cluster.bounded(node, node.keep_house())

    async def roll(self) -> None:
        """Seal the active segment of a node."""
        if self.cluster.up:
            node = self.rng.choice(self.cluster.up)
            if node.log.size_bytes:
                node.log.roll(self.cluster.clock.now_ms())

    async def clean_election(self) -> None:
        """Let another replica in sync lead; the old leader may not know for a while."""
        cluster = self.cluster
        candidates = sorted(each for each in cluster.isr if cluster.nodes[each].is_up and each != cluster.leader_id)
        if candidates:
            cluster.end_zombies()
            cluster.elect(self.rng.choice(candidates), with_zombie=self.rng.random() < 0.4)

    async def unclean_election(self) -> None:
        """Let any replica lead."""
        cluster = self.cluster
        candidates = [node.node_id for node in cluster.up if node.node_id not in cluster.isr or cluster.leader is None]
        if candidates:
            cluster.end_zombies()
            cluster.elect(self.rng.choice(candidates), unclean=True, with_zombie=self.rng.random() < 0.3)

    async def crash(self) -> None:
        """Cut the power of a node; another one that has the data may let it come back with an empty disk."""
        if len(self.cluster.up) > 1:
            node = self.rng.choice(self.cluster.up)
            node.crash()
            if node.node_id not in self.cluster.isr and self.rng.random() < 0.4:
                node.lose_disk()

    async def lose_last_disk(self) -> None:
        """Let all nodes die and come back, the one that was in sync with an empty disk, which leads then."""
        cluster = self.cluster
        leader = cluster.leader
        if leader is None:
            return
        for node in cluster.up:
            if node is not leader:
                node.crash()
        leader.crash()
        leader.lose_disk()
        await cluster.restart(leader)
        await asyncio.sleep(self.rng.choice([0.01, 3]))

    async def arm_crash(self) -> None:
        """Let a node die at a certain step, most likely the leader in the middle of a copy."""
        if len(self.cluster.up) > 1:
            node = self.cluster.leader or self.rng.choice(self.cluster.up)
            places = COPY_PLACES if self.rng.random() < 0.6 else CRASH_PLACES
            node.failpoints.place = self.rng.choice(places)

    async def restart(self) -> None:
        """Start a node that died."""
        down = [node for node in self.cluster.nodes.values() if not node.is_up]
        if down:
            await self.cluster.restart(self.rng.choice(down))

    async def shrink(self) -> None:
        """Let a follower fall out of the ISR."""
        others = sorted(self.cluster.isr - {self.cluster.leader_id})
        if others and self.cluster.leader is not None:
            self.cluster.isr.discard(self.rng.choice(others))
            self.cluster.advance()

    async def end_zombies(self) -> None:
        """Notify old leaders of the change."""
        self.cluster.end_zombies()

    async def move_owner(self) -> None:
        """Let another node own partitions without a leader."""
        self.cluster.owner = self.rng.choice(NODE_IDS)

    # -- the tier ------------------------------------------------------------------------------------------------

    async def break_storage(self) -> None:
        """Let the storage fail for a few calls."""
        operation = self.rng.choice(["copy_log_segment_data", "copy_log_segment_data", "delete_log_segment_data", "*"])
        error, times = RemoteBackendError("broken on purpose"), self.rng.randrange(1, 5)
        effect = self.rng.choice(["before", "after", "partial"])
        if effect == "partial":
            fault = StorageFault(operation="copy_log_segment_data", partial=True, times=times)
        elif effect == "after":
            fault = StorageFault(operation=operation, error_after=error, times=times)
        else:
            fault = StorageFault(operation=operation, error=error, times=times)
        self._faults.append(self.cluster.storage.add(fault))

    async def heal_storage(self) -> None:
        """Let the storage work again."""
        for fault in self._faults:
            self.cluster.storage.remove(fault)
        self._faults.clear()

    async def set_limits(self) -> None:
        """Change the retention of the topic."""
        self.cluster.set_topic(
            retention_ms=self.rng.choice([-1, -1, 5000, 20_000]), retention_bytes=self.rng.choice([-1, -1, 2000, 5000])
        )

    async def set_local_limits(self) -> None:
        """Change how much stays on disks."""
        self.cluster.set_topic(local_retention_bytes=self.rng.choice([-2, 0, 1000, 3000]))

    async def toggle_copying(self) -> None:
        """Stop copying, or go on."""
        if self.cluster.topic.remote_storage_enable:
            self.cluster.set_topic(remote_log_copy_disable=not self.cluster.topic.remote_log_copy_disable)

    async def toggle_tiering(self) -> None:
        """Give up the tier, or begin again, perhaps before it is empty."""
        if self.cluster.topic.remote_storage_enable:
            self.cluster.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
        else:
            self.cluster.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)

    async def reconsider_tiering(self) -> None:
        """Give up the tier and want it back before it is empty; another leader may have to end what was begun."""
        if not self.cluster.topic.remote_storage_enable:
            return
        self._let_deletions_fail()
        await self.toggle_tiering()
        await asyncio.sleep(self.rng.choice([0.001, 0.02, 0.5]))
        self.cluster.set_topic(local_retention_bytes=0)
        await self.toggle_tiering()
        await asyncio.sleep(1.5)
        for node in self.cluster.up:
            await self.cluster.bounded(node, node.keep_house())
        if self.rng.random() < 0.8:
            await self.clean_election()

    def _let_deletions_fail(self) -> None:
        error, times = RemoteBackendError("broken on purpose"), self.rng.randrange(1, 12)
        fault = StorageFault(operation="delete_log_segment_data", error=error, times=times)
        self._faults.append(self.cluster.storage.add(fault))

    async def recreate(self) -> None:
        """Delete the topic and create it again."""
        await self.cluster.recreate_topic()

    # -- quiet moments -------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Let everything work for a while, then read all."""
        cluster = self.cluster
        if cluster.leader is None:
            return
        await self.heal_storage()
        cluster.end_zombies()
        await cluster.replicate(5)
        await asyncio.sleep(4)
        for node in cluster.up:
            await cluster.bounded(node, node.keep_house())
        cluster.check_always()
        if cluster.leader is not None:
            self.quiet_count += 1
            await check_readable(cluster)

    async def settle(self) -> None:
        """Bring everything up, wait for what takes long, and look at all there is."""
        cluster = self.cluster
        self._note("settle")
        for node in cluster.up:
            node.failpoints.place = None
        await self.heal_storage()
        for node in cluster.nodes.values():
            if not node.is_up:
                await cluster.restart(node)
        if cluster.leader is None:
            cluster.elect(cluster.up[0].node_id, unclean=True)
        cluster.end_zombies()
        await self.end_transaction()
        await cluster.replicate(20)
        for _ in range(5):
            await asyncio.sleep(GRACE_MS / 1000)
            for node in cluster.up:
                await cluster.bounded(node, node.keep_house())
            await cluster.replicate(3)
            cluster.check_always()
        cluster.set_topic(retention_ms=-1, retention_bytes=-1)
        for _ in range(40):
            await asyncio.sleep(GRACE_MS / 1000)
            if is_tidy(cluster):
                break
        cluster.check_always()
        self._note("settled")
        check_settled(cluster)
        await check_readable(cluster)
