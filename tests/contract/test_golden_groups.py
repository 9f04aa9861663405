"""Groups and offsets that Apache Kafka 4.3.0 left behind in `__consumer_offsets`, read at the time of the capture."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from crabka.broker.coordinators.loader import replay_log
from crabka.broker.coordinators.shards import partition_for
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.membership import ClassicSettings
from crabka.broker.groups.opaque import OpaqueGroup
from crabka.broker.groups.replay import replay_batch
from crabka.broker.groups.shard import OFFSETS_TOPIC, GroupShard
from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.records.header import BatchHeader
from crabka.testing import InlineThreads, VirtualTimeLoop
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN

SINGLE = GOLDEN / "single"
CAPTURED_MS = 1_794_773_800_000
RETENTION_MS = 7 * 24 * 3_600_000
PARTITION_COUNT = 3


@cache
def expected() -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = json.loads((SINGLE / "expected.json").read_text())["groups"]
    return groups


GROUP_IDS = ("group-classic", "group-consumer", "group-share", "group-simple", "group-txn")


def _load(directory: Path) -> GroupShard:
    index = int(directory.name.rsplit("-", 1)[1])
    path = f"/logs/{directory.name}"
    fs = copy_to_memory(directory, path)
    log = open_log(
        SegmentContext(fs),
        path,
        TopicPartition(OFFSETS_TOPIC, index),
        TopicConfig.from_overrides({"cleanup.policy": "compact"}),
        OpenOptions(clean=False, now_ms=CAPTURED_MS),
    )
    log.set_high_watermark(log.log_end_offset)
    shard = GroupShard(ClassicSettings())
    loop = VirtualTimeLoop()

    def replay(batch: memoryview, header: BatchHeader) -> int:
        return replay_batch(shard, batch, header, CAPTURED_MS)

    loop.run(replay_log(log, InlineThreads(loop), replay, buffer_bytes=1 << 20))
    log.close(clean=True)
    return shard


def _shard_of(group_id: str) -> GroupShard:
    (directory,) = SINGLE.glob(f"d?/{OFFSETS_TOPIC}-{partition_for(group_id, PARTITION_COUNT)}")
    return _load(directory)


def test_all_groups_are_known() -> None:
    assert set(expected()) == set(GROUP_IDS)


@pytest.mark.parametrize("group_id", GROUP_IDS)
def test_state_and_type_are_kafkas(group_id: str) -> None:
    group, reported = _shard_of(group_id).groups[group_id], expected()[group_id]
    if reported["type"] == "Classic":
        assert isinstance(group, ClassicGroup)
        assert (group.state.value, group.membership.protocol_type or "") == (reported["state"], reported["protocol"])
    elif reported["type"] == "Consumer":
        assert isinstance(group, ConsumerGroup)
        assert (group.state.value, group.exists) == (reported["state"], True)
        # The member came in epoch 2 and its leaving began epoch 3, without topics.
        assert (group.data.epoch, group.data.assignment_epoch, group.data.metadata_hash) == (3, 2, 0)
    else:
        assert isinstance(group, OpaqueGroup)
        assert (group.group_type.value, group.exists) == (reported["type"].lower(), True)
        assert group.is_empty == (reported["state"] == "Empty")


@pytest.mark.parametrize("group_id", GROUP_IDS)
def test_offsets_are_kafkas(group_id: str) -> None:
    found = {
        f"{topic}-{partition}": {
            "offset": committed.offset,
            "leader_epoch": None if committed.leader_epoch < 0 else committed.leader_epoch,
            "metadata": committed.metadata,
        }
        for (topic, partition), committed in _shard_of(group_id).offsets.of_group(group_id).items()
    }
    assert found == expected()[group_id]["offsets"]


@pytest.mark.parametrize("group_id", ["group-classic", "group-consumer", "group-simple", "group-txn"])
def test_offsets_expire_a_week_later_and_not_before(group_id: str) -> None:
    shard = _shard_of(group_id)
    assert shard.expired(group_id, CAPTURED_MS, RETENTION_MS) == ([], False)
    places, group_goes = shard.expired(group_id, CAPTURED_MS + RETENTION_MS, RETENTION_MS)
    assert len(places) == len(expected()[group_id]["offsets"])
    assert group_goes
