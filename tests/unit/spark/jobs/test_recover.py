"""What a bucket alone says: offsets, epochs, producers, gaps; and what is passed over."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.formats.checkpoints import encode_epochs
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.spark.jobs.recover import plan_recovery
from tests.support.recorded.files import GOLDEN
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments

pytestmark = pytest.mark.allow_leaks("the library of object stores keeps descriptors until the process ends")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_partition_goes_from_its_first_to_its_last_offset(tmp_path: Path) -> None:
    tier = two_segments()
    plan = plan_recovery(write_tier(tmp_path, tier))
    (topic,) = plan.topics
    assert (topic.name, topic.topic_id, topic.partition_count) == ("orders", ORDERS.topic_id, 1)
    found = topic.partitions[0]
    assert (found.log_start_offset, found.end_offset) == (0, 60)
    assert found.leader_epochs == ((0, 0), (2, 45))
    assert found.producer_snapshot == tier.get(tier.segments[1], IndexType.PRODUCER_SNAPSHOT)
    assert found.gaps == ()
    for segment, planted in zip(found.segments, tier.segments, strict=True):
        assert segment.segment_id == planted.segment_id
        assert segment.leader_epochs == planted.leader_epochs
        assert (segment.start_offset, segment.end_offset) == (planted.start_offset, planted.end_offset)
        assert segment.max_timestamp_ms == planted.max_timestamp_ms


def test_gaps_are_reported_and_what_is_incomplete_is_passed_over(tmp_path: Path) -> None:
    tier = PlantedTier()
    for first in (0, 10, 20, 30):
        tier.add(batches(first, 2), [(0, 0)])
    tier.remove(tier.segments[1], None)
    tier.remove(tier.segments[3], IndexType.LEADER_EPOCH)
    plan = plan_recovery(write_tier(tmp_path, tier))
    found = plan.topics[0].partitions[0]
    assert found.gaps == ((10, 20),)
    assert found.end_offset == 30
    assert len(plan.ignored) == 2
    assert "no .log" in plan.ignored[0]
    assert "no .leader_epoch_checkpoint" in plan.ignored[1]


def test_first_epoch_begins_with_the_log_although_records_were_deleted_before_the_last_copy(tmp_path: Path) -> None:
    tier = two_segments()
    tier.put(tier.segments[1], IndexType.LEADER_EPOCH, encode_epochs([(0, 15), (2, 45)]))
    found = plan_recovery(write_tier(tmp_path, tier)).topics[0].partitions[0]
    assert found.log_start_offset == 0
    assert found.leader_epochs == ((0, 0), (2, 45))


def test_log_begins_with_the_first_epoch_that_the_last_copy_knows(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 2) + batches(10, 2, epoch=1), [(0, 0), (1, 10)])
    tier.add(batches(20, 2, epoch=1), [(1, 15)])
    found = plan_recovery(write_tier(tmp_path, tier)).topics[0].partitions[0]
    assert found.log_start_offset == 10
    assert found.leader_epochs == ((1, 10),)


def test_newest_epoch_decides_where_the_history_goes(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)])
    # Copied by a leader whose records 20..29 were never replicated; its successor wrote them anew.
    tier.add(batches(20, 2), [(0, 0)])
    tier.add(batches(20, 1, epoch=3), [(0, 0), (3, 20)])
    found = plan_recovery(write_tier(tmp_path, tier)).topics[0].partitions[0]
    assert found.end_offset == 25
    assert found.leader_epochs == ((0, 0), (3, 20))
    assert len(found.segments) == 3


def test_topics_can_be_chosen(tmp_path: Path) -> None:
    other = TopicIdPartition(uuid.UUID(int=5), "others", 2)
    uri = write_tier(tmp_path, two_segments(), two_segments(other, first_id=10))
    assert [topic.name for topic in plan_recovery(uri).topics] == ["orders", "others"]
    (chosen,) = plan_recovery(uri, wants=lambda name: name == "others").topics
    assert chosen.missing_partitions == [0, 1]


def test_two_topics_of_one_name_need_a_choice(tmp_path: Path) -> None:
    again = TopicIdPartition(uuid.UUID(int=5), "orders", 0)
    uri = write_tier(tmp_path, two_segments(), two_segments(again, first_id=10))
    with pytest.raises(ConfigError, match="two topics orders"):
        plan_recovery(uri)
    (chosen,) = plan_recovery(uri, topic_ids={"orders": again.topic_id}).topics
    assert chosen.topic_id == again.topic_id


def test_too_few_partitions_are_refused(tmp_path: Path) -> None:
    uri = write_tier(tmp_path, two_segments(TopicIdPartition(uuid.UUID(int=5), "t", 1)))
    with pytest.raises(ConfigError, match="at least 2"):
        plan_recovery(uri, partition_counts={"t": 1})


def test_tier_of_apache_kafka_is_found_as_its_metadata_has_it() -> None:
    plan = plan_recovery(f"file://{GOLDEN}/overlap/tier")
    found = plan.topics[0].partitions[0]
    assert (found.log_start_offset, found.end_offset) == (0, 208)
    assert found.leader_epochs == ((0, 0), (2, 120), (4, 180))
    assert found.gaps == ()
