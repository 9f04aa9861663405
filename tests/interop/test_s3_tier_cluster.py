"""A cluster of real processes with its tier in a real S3 server: leaders die or sleep in the middle of an upload,
partitions move to brokers that never had them, topics leave the tier and come back, and the tier is checked.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Iterator

import pytest

from crabka.ids import uuid_to_text
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled
from tests.support.tiers.reading import read_from_start
from tests.support.tiers.s3 import SEGMENT_RECORDS, S3TierCluster

# The first run builds the server.
pytestmark = [
    pytest.mark.timeout(1500),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

ROUNDS = range(scaled(1, 20))
RECORDS = 8 * SEGMENT_RECORDS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3TierCluster]:
    with S3TierCluster(tmp_path_factory.mktemp("cluster"), random.Random(1)) as running:
        yield running


def check_all_there(cluster: S3TierCluster, topic: str) -> None:
    """Everything that was acknowledged is read from offset 0 on, byte for byte."""
    start, values = read_from_start(",".join(cluster.nodes.server_list), topic)
    assert start == 0
    assert values == cluster.acknowledged[topic]


@pytest.mark.parametrize("round_number", ROUNDS)
def test_a_leader_that_is_killed_during_a_copy_and_a_move_to_an_empty_broker_lose_nothing(
    cluster: S3TierCluster, round_number: int
) -> None:
    topic = f"killed-{round_number}"
    cluster.create(topic)
    held = cluster.hold("PUT", f"{topic}-0-", skip=8)
    cluster.produce(topic, RECORDS)
    wait_until(lambda: held.hits, "an upload is on its way")
    leader = cluster.leader_of(topic)
    leader.kill()
    cluster.release(held)
    cluster.produce(topic, RECORDS)
    cluster.wait_tiered(topic)
    leader.start()
    cluster.nodes.wait_in_sync([topic])
    cluster.move_to_spare(topic)
    check_all_there(cluster, topic)
    cluster.wait_clean()


@pytest.mark.parametrize("round_number", ROUNDS)
def test_a_leader_that_sleeps_during_an_upload_does_no_damage_when_it_wakes(
    cluster: S3TierCluster, round_number: int
) -> None:
    topic = f"sleeping-{round_number}"
    cluster.create(topic)
    held = cluster.hold("PUT", f"{topic}-0-", skip=8)
    cluster.produce(topic, RECORDS)
    wait_until(lambda: held.hits, "an upload is on its way")
    old = cluster.leader_of(topic)
    old.pause()
    try:
        cluster.wait_led_by_another(topic, old)
        cluster.proxy.faults.remove(held)
        cluster.produce(topic, RECORDS)
        cluster.wait_tiered(topic)
    finally:
        old.resume()
    # Only now the server gets what the old leader sent before.
    assert held.wait_for is not None
    held.wait_for.set()
    cluster.nodes.wait_in_sync([topic])
    cluster.wait_clean()
    check_all_there(cluster, topic)


@pytest.mark.parametrize("round_number", ROUNDS)
def test_a_topic_that_leaves_the_tier_and_comes_back_at_once_keeps_what_is_on_disks(
    cluster: S3TierCluster, round_number: int
) -> None:
    topic = f"back-{round_number}"
    cluster.create(topic, local_retention_bytes="-2")
    cluster.produce(topic, RECORDS)
    cluster.wait_tiered(topic)
    held = [cluster.hold("DELETE", f"{topic}-0-"), cluster.hold("POST", "delete")]
    cluster.configure(topic, remote_storage_enable="false", remote_log_delete_on_disable="true")
    wait_until(lambda: sum(each.hits for each in held), "the tier is being emptied")
    cluster.configure(
        topic, remote_storage_enable="true", remote_log_delete_on_disable="false", local_retention_bytes="1"
    )
    leader = cluster.leader_of(topic)
    cluster.produce(topic, RECORDS)
    leader.kill()
    for each in held:
        cluster.release(each)
    cluster.wait_led_by_another(topic, leader)
    cluster.produce(topic, RECORDS)
    cluster.wait_tiered(topic)
    check_all_there(cluster, topic)
    leader.start()
    cluster.nodes.wait_in_sync([topic])
    cluster.wait_clean()


def test_what_is_wrong_in_the_bucket_is_found_and_reported_by_the_exit_code(cluster: S3TierCluster) -> None:
    topic = "checked"
    cluster.create(topic)
    cluster.produce(topic, RECORDS)
    cluster.wait_tiered(topic)
    cluster.wait_clean()
    segment = cluster.log_objects(topic)[0]

    orphan = segment.with_name(f"{'7'.zfill(20)}-{uuid_to_text(uuid.UUID(int=7))}.log")
    orphan.write_bytes(b"an orphan")
    reported = cluster.check("fsck", "--grace", "0")
    assert (reported.returncode, "orphan" in reported.stdout) == (1, True), reported.stdout + reported.stderr
    assert cluster.check("fsck", "--grace", "0", "--delete-orphans").returncode == 0
    assert not orphan.exists()

    away = segment.with_suffix(".away")
    with contextlib.ExitStack() as restoring:
        content = segment.read_bytes()
        segment.rename(away.parent.parent / away.name)
        restoring.callback(lambda: (away.parent.parent / away.name).rename(segment))
        reported = cluster.check("verify", "--grace", "10")
        assert (reported.returncode, "missing" in reported.stdout) == (1, True), reported.stdout + reported.stderr
    assert segment.read_bytes() == content
    assert cluster.check("fsck", "--grace", "10").returncode == 0

    down = [cluster.hold("GET"), cluster.hold("HEAD")]
    for each in down:
        each.wait_for = None
    try:
        reported = cluster.check("verify")
        assert reported.returncode == 2, reported.stdout + reported.stderr
        assert "could not check" in reported.stderr
    finally:
        for each in down:
            cluster.proxy.faults.remove(each)
