"""Rot in the metadata files of voters, running and stopped: real driver and log, simulated network and disks."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from crabka.errors import CrabkaError
from crabka.kraft.settings import KraftSettings
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.metadata.records import NoOpRecord
from crabka.protocol.apis import ApiKey
from crabka.quorum.log import survey as log_survey
from crabka.quorum.log.survey import LogSurvey, survey_log
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import list_snapshots, read_snapshot
from tests.support.async_tests import run_with
from tests.support.faults.rotting import flip
from tests.support.kraft_sim import planted
from tests.support.quorum.node import LOG_DIRECTORY
from tests.support.quorum.raft_cluster import SETTINGS, RaftCluster, RaftReplica, host_of, run_cluster
from tests.support.scale import scaled

CHECKED = ScrubSettings(interval_ms=300, max_bytes_per_second=100_000_000, max_cpu_percent=100)
# Files that belong to elections, or that nothing reads.
UNTOUCHED = ("quorum-state", ".damaged", ".part", ".tmp")


def files_of(replica: RaftReplica, suffix: str = "") -> list[str]:
    names = [name for name in replica.fs.listdir(LOG_DIRECTORY) if name.endswith(suffix)]
    paths = [f"{LOG_DIRECTORY}/{name}" for name in sorted(names) if not name.endswith(UNTOUCHED)]
    return [path for path in paths if replica.fs.stat(path).size_bytes]


def flip_somewhere(replica: RaftReplica, rng: random.Random, suffix: str = "") -> str:
    """Change one bit of a file, each kind of file as often as the others; return which."""
    kinds: dict[str, list[str]] = {}
    for path in files_of(replica, suffix):
        name = path.rpartition("/")[2]
        kinds.setdefault(name.partition(".")[2] or name, []).append(path)
    path = rng.choice(kinds[rng.choice(sorted(kinds))])
    position = rng.randrange(replica.fs.stat(path).size_bytes)
    flip(replica.fs, path, position, 1 << rng.randrange(8))
    return f"{host_of(replica.node_id)}: {path} at {position}"


def forget_recent(replica: RaftReplica) -> None:
    """As if all batches were written long ago: damage to others is just written back."""
    assert replica.quorum is not None
    replica.quorum._driver._storage.log._files.recent.truncate(0)


async def wait_whole(cluster: RaftCluster) -> None:
    """Wait until no replica waits for lost entries and no file is damaged."""

    def is_whole(replica: RaftReplica) -> bool:
        return replica.quorum is not None and replica.quorum.core.lost_end is None and not faults(replica)

    await cluster.wait(lambda: all(map(is_whole, cluster.replicas.values())))


def faults(replica: RaftReplica) -> list[str]:
    """Return what is wrong with the snapshots of a replica, and with the log after them."""
    found = []
    snapshots = list_snapshots(replica.fs, LOG_DIRECTORY)
    for snapshot in snapshots:
        try:
            read_snapshot(replica.fs, f"{LOG_DIRECTORY}/{snapshot.file_name}", snapshot.epoch)
        except CrabkaError as error:
            found.append(str(error))
    survey = survey_log(replica.fs, LOG_DIRECTORY, snapshots[-1].end_offset if snapshots else 0)
    if survey.damage is not None:
        found.append(str(survey.damage))
    return [*found, *map(str, survey.wrong_epochs)]


async def rot_in_two_of_five(cluster: RaftCluster) -> None:
    """Damage files of two voters at once, each running, stopped, killed or without power."""
    counts: Counter[str] = Counter()
    await cluster.create_topics(20)
    for _ in range(scaled(3, 12)):
        victims = cluster.rng.sample(list(cluster.replicas.values()), 2)
        for victim in victims:
            outcome = cluster.rng.choice(["runs", "stopped", "killed"])
            counts[outcome] += 1
            if outcome == "stopped":
                await victim.stop()
            elif outcome == "killed":
                await victim.crash(power=False)
        for victim in victims:
            if victim.quorum is not None and cluster.rng.random() < 0.5:
                await cluster.settle()
                forget_recent(victim)
            for _ in range(2):
                print(flip_somewhere(victim, cluster.rng))
        for victim in victims:
            if victim.quorum is None:
                await victim.start()
        await cluster.create_topics(3)
        await cluster.settle()
        await wait_whole(cluster)
        cluster.check()
        if cluster.rng.random() < 0.5:
            await cluster.rng.choice(cluster.running).quorum.snapshot()  # type: ignore[union-attr]
    print(dict(counts))


@pytest.mark.parametrize("number", range(scaled(3, 100)))
def test_rot_in_two_voters_of_five_loses_no_acknowledged_change(rng: random.Random, number: int) -> None:
    run_cluster(random.Random(rng.random() + number), rot_in_two_of_five, voters=5, scrub=CHECKED)


async def lose_the_snapshot_beside_a_voter_that_is_down(cluster: RaftCluster) -> None:
    """A voter misses committed topics; another one that has them loses its snapshot, and the leader is away."""
    await cluster.create_topics(10)
    leader = await cluster.wait_active()
    away, rotten = cluster.rng.sample([each for each in cluster.running if each is not leader], 2)
    await away.stop()
    await cluster.create_topics(20)
    await cluster.settle()
    assert rotten.quorum is not None
    await rotten.quorum.snapshot()
    await cluster.create_topics(3)
    await cluster.settle()
    await rotten.crash(power=False)
    await leader.crash(power=False)
    for path in files_of(rotten, ".checkpoint"):
        flip(rotten.fs, path, cluster.rng.randrange(rotten.fs.stat(path).size_bytes))
    await away.start()
    await rotten.start()
    await asyncio.sleep(4)
    # Neither of them may have led without what was acknowledged.
    await leader.start()
    await cluster.create_topics(5)
    await cluster.settle()
    cluster.check()
    await wait_whole(cluster)


PRUNED = MetadataLogSettings(max_idle_interval_ms=0, max_snapshot_interval_ms=0, segment_bytes=500, retention_bytes=0)


@pytest.mark.parametrize("number", range(scaled(2, 50)))
def test_a_voter_that_lost_its_snapshot_waits_for_a_leader(rng: random.Random, number: int) -> None:
    run_cluster(random.Random(rng.random() + number), lose_the_snapshot_beside_a_voter_that_is_down, settings=PRUNED)


def _is_noticed(rng: random.Random) -> bool:
    for number in range(10):
        try:
            run_cluster(
                random.Random(rng.random() + number), lose_the_snapshot_beside_a_voter_that_is_down, settings=PRUNED
            )
        except (AssertionError, CrabkaError, TimeoutError) as error:
            print(f"found in run {number}: {error!r}")
            return True
    return False


def test_a_voter_that_votes_after_it_lost_its_snapshot_is_noticed(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.ignore_the_durable_end(monkeypatch)
    assert _is_noticed(rng)


def test_an_image_across_the_gap_that_a_lost_snapshot_leaves_is_noticed(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(_fs: object, _directory: str, _start_offset: int, found: LogSurvey) -> LogSurvey:
        return found

    monkeypatch.setattr(log_survey, "_unreachable", trusting)
    assert _is_noticed(rng)


@run_with(lambda test, rng: run_cluster(rng, test))
async def test_a_leader_whose_log_is_damaged_brings_a_follower_up_to_date_all_the_same(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    behind = next(each for each in cluster.running if each is not leader)
    await behind.stop()
    await cluster.create_topics(10)
    await cluster.settle()
    forget_recent(leader)
    flip(leader.fs, files_of(leader, ".log")[-1], 70)
    await behind.start()
    # Long before the next check by time.
    await cluster.create_topics(3)
    await cluster.settle()
    cluster.check()
    await wait_whole(cluster)
    assert leader.quorum is not None
    assert leader.quorum.scrub_stats.repaired == 1
    assert leader.quorum.leader.leader_id == leader.node_id


@run_with(lambda test, rng: run_cluster(rng, test, settings=PRUNED))
async def test_a_leader_whose_snapshot_is_damaged_writes_another_for_the_one_who_fetches_it(
    cluster: RaftCluster, /
) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    behind = next(each for each in cluster.running if each is not leader)
    await behind.stop()
    await cluster.create_topics(10)
    assert leader.quorum is not None
    await leader.quorum.snapshot()
    flip(leader.fs, files_of(leader, ".checkpoint")[-1], 80)
    await behind.start()
    await cluster.create_topics(3)
    await cluster.settle()
    cluster.check()
    await wait_whole(cluster)
    assert leader.requests[ApiKey.FETCH_SNAPSHOT] > 0


@run_with(lambda test, rng: run_cluster(rng, test, kraft=KraftSettings(fetch_timeout_ms=60000), settings=SETTINGS))
async def test_a_leader_with_damage_that_is_not_committed_hands_over(cluster: RaftCluster, /) -> None:
    await cluster.create_topics(5)
    leader = await cluster.wait_active()
    assert leader.quorum is not None
    epoch = leader.quorum.leader_epoch
    cluster.network.isolate(host_of(leader.node_id))
    waiting = leader.quorum.append([NoOpRecord()])
    waiting.add_done_callback(lambda done: done.exception())
    path = files_of(leader, ".log")[-1]
    size = leader.fs.stat(path).size_bytes
    await cluster.wait(lambda: leader.fs.stat(path).size_bytes > size)
    forget_recent(leader)
    flip(leader.fs, path, size + 70)
    assert not await leader.quorum._driver.scrubber.check_now()
    await cluster.wait(lambda: leader.quorum is not None and not leader.quorum.core.is_leader)
    cluster.network.heal_all()
    await cluster.create_topics(3)
    await cluster.settle()
    cluster.check()
    assert leader.quorum.leader_epoch > epoch
    await wait_whole(cluster)


# A leader that is cut off would resign for that reason alone after three seconds.
