"""Tiering under random work: appends, rolls, elections clean and unclean, truncation, retention, deleted records,
crashes at any step and a store that fails.

All faults end. Then the leader has every record from its log start on, locally or in the
tier, with the bytes that its history says; the tier holds what its metadata say and nothing else.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from crabka.broker.tiering.copy.plan import RemoteLookup
from crabka.formats.leader_epochs import EpochLineage
from crabka.records.builder import build_batch
from crabka.records.header import iter_headers
from crabka.records.record import Record
from crabka.remote.errors import RemoteBackendError
from crabka.testing.faulty_storage import StorageFault
from tests.support.scale import scaled
from tests.support.storage.small import read_batches
from tests.support.tier_sim.crash_steps import COPY_STEPS, RETENTION_STEPS
from tests.support.tiers.scene import BATCH_RECORDS, GRACE_MS, SEGMENT_BYTES, TierBroker, TierScene, passes
from tests.support.tiers.segment_metadata import ORDERS

BROKERS = (1, 2, 3)
STEPS = 60


class StormBatch(NamedTuple):
    """A batch as it was appended."""

    data: bytes
    leader_epoch: int


class TierStorm:
    """Three replicas, what they were given, and what the leader of the moment must have."""

    def __init__(self, seed: int, scene: TierScene) -> None:
        self.rng = random.Random(seed)
        self.scene = scene
        self.replicas = {broker_id: scene.broker(broker_id) for broker_id in BROKERS}
        # The history of each replica, by batch.
        self.histories: dict[int, list[StormBatch]] = {broker_id: [] for broker_id in BROKERS}
        self.epoch = 0
        self.leader_id = 1
        self.serial = 0
        for broker in self.replicas.values():
            broker.set_topic(local_retention_bytes=SEGMENT_BYTES, retention_bytes=-1)
        self._notify_roles()

    @property
    def leader(self) -> TierBroker:
        return self.replicas[self.leader_id]

    # -- what may happen -----------------------------------------------------------------------------------------

    async def step(self) -> None:
        """Do something."""
        self.revive()
        actions = [self.append] * 5 + [self.rest] * 3
        actions += [self.elect, self.elect_unclean, self.crash, self.fail_store, self.drop_local, self.drop_local]
        actions += [self.delete_records, self.limit_size]
        self.rng.choice(actions)()
        await passes(self.rng.choice([0.001, 0.01, 0.3, 1.1, 5]))

    def append(self) -> None:
        """Append batches to the leader, and to followers as far as they follow."""
        for _ in range(self.rng.randrange(1, 6)):
            self.serial += 1
            now_ms = self.scene.clock.now_ms()
            records = [Record(i, now_ms, b"%d" % self.serial, bytes(100)) for i in range(BATCH_RECORDS)]
            self._store(self.leader_id, StormBatch(build_batch(records), self.epoch))
        for broker_id in BROKERS:
            if broker_id != self.leader_id and self.rng.random() < 0.5:
                self._catch_up(broker_id)
        self._commit()

    def rest(self) -> None:
        """Let time pass."""

    def elect(self) -> None:
        """Elect a replica that has everything."""
        for broker_id in BROKERS:
            self._catch_up(broker_id)
        self._commit()
        self._lead(self.rng.choice(BROKERS))

    def elect_unclean(self) -> None:
        """Elect any replica; what only others have is lost, and they cut it off."""
        candidate = self.rng.choice(BROKERS)
        # What a leader has deleted is deleted.
        start = max(broker.log.log_start_offset for broker in self.replicas.values())
        if self.replicas[candidate].log.log_end_offset < start:
            return
        self._lead(candidate)
        for broker_id in BROKERS:
            self._cut(broker_id)

    def crash(self) -> None:
        """Kill a broker, at once or at its next visit to a step."""
        broker = self.replicas[self.rng.choice(BROKERS)]
        if self.rng.random() < 0.3:
            broker.crash()
        else:
            broker.failpoints.place = self.rng.choice([*COPY_STEPS, *RETENTION_STEPS])

    def fail_store(self) -> None:
        """Let the store fail for a while."""
        operation = self.rng.choice(["copy_log_segment_data", "delete_log_segment_data"])
        error = RemoteBackendError("in a storm")
        if self.rng.random() < 0.5:
            self.scene.storage.add(StorageFault(operation=operation, error=error, times=2))
        else:
            self.scene.storage.add(StorageFault(operation=operation, error_after=error, times=2))

    def drop_local(self) -> None:
        """Run local retention on one replica."""
        log = self.replicas[self.rng.choice(BROKERS)].log
        log.flush()
        while log.retention.drop_oldest_tiered(self.scene.clock.now_ms()) is not None:
            pass

    def delete_records(self) -> None:
        """Delete records up to some offset, on all replicas as far as they are."""
        if self.rng.random() < 0.1:
            log = self.leader.log
            target = self.rng.randint(log.log_start_offset, log.high_watermark)
            log.retention.raise_log_start(target)
            self._save_start(self.leader_id)
            self._follow_log_start()

    def limit_size(self) -> None:
        """Change the retention by size."""
        limit = self.rng.choice([-1, -1, -1, 8, 20])
        limit_bytes = limit if limit < 0 else limit * SEGMENT_BYTES
        for broker in self.replicas.values():
            broker.set_topic(retention_bytes=limit_bytes)

    def revive(self) -> None:
        """Start dead brokers again on what their disks hold; they follow until they are elected."""
        for broker_id in BROKERS:
            if self.replicas[broker_id].is_dead:
                again = self.replicas[broker_id] = self.scene.broker(broker_id)
                again.log.set_high_watermark(again.log.log_end_offset)
                if broker_id == self.leader_id:
                    self.elect()
                else:
                    again.follow()
        self._follow_log_start()

    # -- how it is done ------------------------------------------------------------------------------------------

    def _notify_roles(self) -> None:
        for broker_id, broker in self.replicas.items():
            if broker_id == self.leader_id:
                broker.lead(self.epoch)
            else:
                broker.follow()

    def _lead(self, broker_id: int) -> None:
        if broker_id != self.leader_id:
            self.leader.follow()
        self.leader_id = broker_id
        self.epoch += 1
        self.leader.lead(self.epoch)

    def _store(self, broker_id: int, stored: StormBatch) -> None:
        log = self.replicas[broker_id].log
        now_ms = self.scene.clock.now_ms()
        log.append_as_leader(stored.data, leader_epoch=stored.leader_epoch, now_ms=now_ms)
        self.histories[broker_id].append(stored)

    def _cut(self, broker_id: int) -> None:
        """Cut off what the leader does not have."""
        ours, theirs = self.histories[broker_id], self.histories[self.leader_id]
        shared = 0
        while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
            shared += 1
        if shared < len(ours):
            log = self.replicas[broker_id].log
            log.truncation.truncate_to(shared * BATCH_RECORDS)
            del ours[shared:]

    def _catch_up(self, broker_id: int) -> None:
        if broker_id == self.leader_id:
            return
        self._cut(broker_id)
        ours, theirs = self.histories[broker_id], self.histories[self.leader_id]
        for stored in theirs[len(ours) :]:
            self._store(broker_id, stored)
        log = self.replicas[broker_id].log
        log.set_high_watermark(log.log_end_offset)

    def _commit(self) -> None:
        """Commit all that the leader has: replicas that lag leave the ISR."""
        log = self.leader.log
        log.set_high_watermark(log.log_end_offset)

    def _follow_log_start(self) -> None:
        start = self.leader.log.log_start_offset
        for broker_id, broker in self.replicas.items():
            log = broker.log
            log.set_high_watermark(max(log.high_watermark, min(start, log.log_end_offset)))
            log.retention.raise_log_start(min(start, log.high_watermark))
            self._save_start(broker_id)

    def _save_start(self, broker_id: int) -> None:
        self.scene.saved_starts[broker_id] = self.replicas[broker_id].log.log_start_offset

    # -- the end -------------------------------------------------------------------------------------------------

    async def heal(self) -> None:
        """Let everything work, and wait until all leftovers are gone."""
        self.scene.storage.faults.clear()
        for broker in self.replicas.values():
            broker.failpoints.place = None
        self.revive()
        self.elect()
        await passes(4 * GRACE_MS / 1000)

    def check(self) -> None:
        """Every record from the log start on is there, with the bytes that were appended."""
        self.scene.check_tidy()
        log, history = self.leader.log, self.histories[self.leader_id]
        found = {header.base_offset: bytes(data[61:]) for header, data in read_batches(log, log.local_log_start_offset)}
        offset = log.log_start_offset
        while offset < log.local_log_start_offset:
            epoch = log.leader_epochs.lineage.epoch_at(offset)
            assert epoch is not None
            segment = self.scene.rlmm.remote_log_segment_metadata(ORDERS, epoch, offset)
            assert segment is not None, f"offset {offset} of epoch {epoch} is nowhere; {self.scene.states()}"
            content = bytes(self.scene.store.fetch_log_segment(segment, 0))
            batches = {header.base_offset: (pos, header) for pos, header in iter_headers(content)}
            base = offset - offset % BATCH_RECORDS
            position, header = batches[base]
            found[base] = content[position + 61 : position + header.size_in_bytes]
            offset = base + BATCH_RECORDS
        first = log.log_start_offset - log.log_start_offset % BATCH_RECORDS
        for base in range(first, log.log_end_offset, BATCH_RECORDS):
            assert found[base] == history[base // BATCH_RECORDS].data[61:], f"other records at {base}"


def run_storm(seed: int) -> None:
    """Run one seed to its end. Raises AssertionError."""
    scene = TierScene()

    async def main() -> None:
        storm = TierStorm(seed, scene)
        for _ in range(STEPS):
            await storm.step()
        await storm.heal()
        storm.check()

    scene.run(main())


@pytest.mark.parametrize("seed", range(scaled(15, 600)))
def test_no_record_is_lost_and_nothing_is_left_over_after_a_storm(seed: int) -> None:
    run_storm(seed)


def test_the_storm_finds_a_choice_of_segments_that_does_not_go_by_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    def highest_of_any(lineage: EpochLineage, remote: RemoteLookup, _from_offset: int) -> int:
        found = [remote.highest_offset(epoch) for epoch in lineage.epochs]
        return max((offset for offset in found if offset is not None), default=-1)

    monkeypatch.setattr("crabka.broker.tiering.copy.copier.copied_offset", highest_of_any)
    with pytest.raises(AssertionError, match="is nowhere"):
        run_storm(0)
