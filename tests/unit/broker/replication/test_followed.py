from __future__ import annotations

import pytest

from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_state import FollowerPosition
from crabka.protocol.hot.follower_fetch import pack_fetch_partition
from tests.support.async_tests import run_with
from tests.support.nodes.follower import FOLLOWER, TOPIC, FollowerWorld, follow
from tests.support.quorum.images import topic_id_of
from tests.support.storage.small import append, make_batch


@run_with(follow)
async def test_a_request_says_where_the_log_ends_and_in_which_epoch(world: FollowerWorld, /) -> None:
    world.place({"leader": -1}, {"leader": -1, "leader_epoch": 8})
    partition = world.partition(1)
    append(partition.log, make_batch(3), leader_epoch=6)
    partition.log.retention.delete_records_before(2)
    followed = FollowedPartition(partition, backoff_ms=100)
    assert followed.key == (topic_id_of(TOPIC).bytes, 1)
    assert (followed.leader_id, followed.leader_epoch) == (-1, 8)
    assert followed.asked is None
    assert followed.pack(1000) == pack_fetch_partition(
        1, leader_epoch=8, fetch_offset=3, last_fetched_epoch=6, log_start_offset=2, max_bytes=1000
    )
    assert followed.asked == FollowerPosition(8, 3, 6)


@pytest.mark.parametrize(("setting", "expected"), [("", False), ("*", True), ("0:2", True), ("0:1,1:2", False)])
@run_with(follow)
async def test_the_settings_of_its_topic_name_a_throttled_replica(
    world: FollowerWorld, /, setting: str, expected: bool
) -> None:
    world.place({"leader": -1}, follower_replication_throttled_replicas=setting)
    assert FollowedPartition(world.partition(), backoff_ms=1).is_throttled(FOLLOWER) is expected
