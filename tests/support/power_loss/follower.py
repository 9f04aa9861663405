"""A follower that loses power while it truncates and fetches."""

from __future__ import annotations

import random

from crabka.log.partition.partition_log import PartitionLog
from tests.support.nodes.follower import FOLLOWER, FollowerWorld, follow
from tests.support.storage.small import append, make_batch, read_batches

# About four batches in a segment.
COMMON_EPOCH, OLD_EPOCH, NEW_EPOCH = 3, 4, 5
SEGMENT_BYTES = "600"


def fill(log: PartitionLog, epoch: int, count: int, rng: random.Random) -> None:
    for _ in range(count):
        append(log, make_batch(rng.randint(1, 3)), leader_epoch=epoch)


async def prepare(world: FollowerWorld, rng: random.Random) -> tuple[PartitionLog, int]:
    """Let the logs of leader and follower part; return the leader's and up to where the follower's is synced."""
    log = (await world.add_leader()).lead()
    fill(log, COMMON_EPOCH, rng.randint(0, 12), rng)
    world.place({"leader": -1, "leader_epoch": COMMON_EPOCH}, internal_segment_bytes=SEGMENT_BYTES)
    own = world.partition().log
    for _, batch in read_batches(log):
        own.copying.append_as_follower(batch)
    world.learn_leader(FOLLOWER, OLD_EPOCH)
    fill(own, OLD_EPOCH, rng.randint(1, 20), rng)
    if rng.random() < 0.8:
        own.flush()
    synced = own.recovery_point
    if rng.random() < 0.8:
        await world.logs.save_checkpoints()
    fill(own, OLD_EPOCH, rng.randint(0, 5), rng)
    fill(log, NEW_EPOCH, rng.randint(0, 12), rng)
    return log, synced


def is_beginning(part: list[bytes], whole: list[bytes]) -> bool:
    return part == whole[: len(part)]


def content(log: PartitionLog) -> list[bytes]:
    return [batch for _, batch in read_batches(log)]


def run(seed: int) -> None:
    rng = random.Random(seed)

    async def test(world: FollowerWorld) -> None:
        log, synced = await prepare(world, rng)
        own = world.partition().log
        before = content(own)
        common = min(synced, log.leader_epochs.lineage.end_offset_for(COMMON_EPOCH, log.log_end_offset).end_offset)
        world.learn_leader(1, NEW_EPOCH)
        for _ in range(rng.randint(0, 3)):
            await world.settle(rng.randint(0, 30))
            fill(log, NEW_EPOCH, rng.randint(0, 6), rng)
            if rng.random() < 0.3:
                await world.logs.save_checkpoints()
            if rng.random() < 0.3:
                world.logs.flush_dirty(0)
        await world.settle(rng.randint(0, 30))
        await world.crash(rng if rng.random() < 0.8 else None, block_bytes=rng.choice((64, 4096)))
        await world.start()
        left = world.partition().log
        assert is_beginning(content(left), before) or is_beginning(content(left), content(log))
        assert left.log_end_offset >= common
        await world.settle()
        assert content(left) == content(log)
        assert left.leader_epochs.entries == log.leader_epochs.entries

    follow(test, seed=seed)
