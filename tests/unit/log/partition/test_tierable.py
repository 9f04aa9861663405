from __future__ import annotations

import dataclasses

import pytest

from crabka.config.topic import TopicConfig
from crabka.log.partition.tierable import TierableSegment, is_tierable


def test_a_description_of_a_segment_does_not_change() -> None:
    segment = TierableSegment(
        base_offset=0,
        end_offset=9,
        size_bytes=100,
        max_timestamp_ms=1,
        log_path="0.log",
        offset_index_path="0.index",
        time_index_path="0.timeindex",
        producer_snapshot_path="10.snapshot",
        txn_index_path=None,
        is_flushed=True,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        segment.is_flushed = False  # type: ignore[misc]
    assert dataclasses.replace(segment, is_flushed=False) != segment


def test_compacted_and_internal_topics_are_not_tierable() -> None:
    config = TopicConfig(remote_storage_enable=True)
    assert is_tierable("orders", config)
    assert is_tierable("orders", dataclasses.replace(config, cleanup_policy=frozenset()))
    assert not is_tierable("orders", TopicConfig())
    assert not is_tierable("orders", dataclasses.replace(config, cleanup_policy=frozenset({"compact", "delete"})))
    for topic in ("__consumer_offsets", "__transaction_state", "__remote_log_metadata", "__cluster_metadata"):
        assert not is_tierable(topic, config)
