"""Metadata written by Kafka 4.3.0: read as kafka-dump-log read it, and encoded again to the same bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crabka.metadata.configs import ConfigResourceType, ConfigsImage
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import RecordType, decode_record, encode_record
from crabka.metadata.replay import MetadataReplay
from tests.support.recorded.dump_log import as_dumped, read_dump
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.metadata_logs import (
    METADATA_DIRS,
    SINGLE,
    checkpoints,
    replay_file,
    replay_snapshot,
    segments,
    stored_records,
)

FILES = [path for directory in METADATA_DIRS for path in [*segments(directory), *checkpoints(directory)]]
SNAPSHOTS = [path for path in FILES if path.suffix == ".checkpoint" and not path.name.startswith("0" * 20)]


def _name(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


def _dump_of(path: Path) -> Path:
    family, rest = path.relative_to(GOLDEN).parts[0], Path(*path.relative_to(GOLDEN).parts[1:])
    return GOLDEN / family / "dumps" / f"{rest}.dump.txt"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_records_read_as_kafka_dump_log_prints_them(path: Path) -> None:
    dumped = [record for record in read_dump(_dump_of(path)) if record.version >= 0]
    stored = [record for record in stored_records(path) if record.message is not None]
    assert len(stored) == len(dumped)
    for ours, theirs in zip(stored, dumped, strict=True):
        assert ours.offset == theirs.offset
        assert f"{RecordType(ours.message.__api_key__).name}_RECORD" == theirs.kind
        assert ours.message.__version__ == theirs.version
        assert as_dumped(ours.message) == theirs.data


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_record_encodes_to_the_same_bytes(path: Path) -> None:
    for record in stored_records(path):
        if record.message is not None:
            assert encode_record(record.message) == record.value


def _without_orphan_configs(image: MetadataImage) -> MetadataImage:
    """Kafka's snapshots keep configs of topics that came and went inside one delta of theirs."""
    kept = {
        resource: values
        for resource, values in image.configs.resources.items()
        if resource.resource_type != ConfigResourceType.TOPIC or resource.name in image.topics.by_name
    }
    return replace(image, configs=ConfigsImage(kept))


@pytest.mark.parametrize("path", [path for path in SNAPSHOTS if "c3" not in path.relative_to(GOLDEN).parts], ids=_name)
def test_the_log_up_to_a_snapshot_gives_the_image_of_the_snapshot(path: Path) -> None:
    end_offset = int(path.stem.split("-")[0])
    replay = MetadataReplay()
    for segment in segments(path.parent):
        for record in stored_records(segment):
            if record.offset >= end_offset:
                break
            if record.message is None:
                replay.skip_to(record.offset, record.epoch)
            else:
                replay.replay(record.message, record.offset, record.epoch)
    from_log = replay.publish()
    from_snapshot = replay_snapshot(path).publish()
    assert from_log is not None
    assert from_snapshot is not None
    assert from_log.image == _without_orphan_configs(from_snapshot.image)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=_name)
def test_the_tail_after_a_snapshot_leads_to_the_same_final_image(path: Path) -> None:
    newest = checkpoints(path.parent)[-1]
    images = []
    for start in (path, newest):
        replay = replay_snapshot(start)
        for segment in segments(path.parent):
            replay_file(replay, segment, int(start.stem.split("-")[0]))
        replay.publish()
        images.append(_without_orphan_configs(replay.image))
    assert images[0] == images[1]


@pytest.mark.parametrize("path", SNAPSHOTS, ids=_name)
def test_an_image_and_its_records_are_the_same_thing(path: Path) -> None:
    published = replay_snapshot(path).publish()
    assert published is not None
    image = published.image
    records = image.to_records()
    replay = MetadataReplay()
    for record in records:
        replay.replay(decode_record(encode_record(record)), image.offset, image.epoch)
    again = replay.publish()
    assert again is not None
    assert again.image == image
    stored = sorted(record.value for record in stored_records(path) if record.message is not None)
    assert sorted(encode_record(record) for record in records) == stored


def test_the_final_image_of_the_single_node_says_what_its_admin_client_received() -> None:
    replay = MetadataReplay()
    for segment in segments(SINGLE):
        replay_file(replay, segment)
    published = replay.publish()
    assert published is not None
    image = published.image
    assert dict(image.features.levels) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert image.configs.get(ConfigResourceType.BROKER, "") == {
        "min.insync.replicas": "1",
        "message.max.bytes": "1048600",
    }
    assert len(image.topics.by_name["configured"].partitions) == 4
    assert "deleted-topic" not in image.topics.by_name
    assert image.offset == 452
