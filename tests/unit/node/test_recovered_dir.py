"""The files of a node that begins with the topics of a tier."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pytest

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import BOOTSTRAP_SNAPSHOT
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import encode_snapshot
from crabka.metadata.records import ConfigRecord, PartitionRecord, ProducerIdsRecord, TopicRecord
from crabka.node.recovered_dir import TOPIC_CONFIGS, RecoveredDir, write_recovered_dir
from crabka.ports import Clock, Network, Runtime, Threads
from crabka.quorum.snapshots.files import read_snapshot
from crabka.quorum.storage import read_meta_properties
from crabka.records.control import parse_control_record
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from crabka.remote.recovery import RecoverablePartition, RecoverableTopic, RecoveryPlan
from crabka.remote.scrub import TierHistory
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.tiers.planted import ORDERS, two_segments

METADATA_PARTITIONS = 3
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class _FixedClock:
    def now_ms(self) -> int:
        return 5_000

    def monotonic_ms(self) -> int:
        return 0

    def processor_ns(self) -> int:
        return 0


@pytest.fixture
def runtime() -> Runtime:
    clock = cast("Clock", _FixedClock())
    return Runtime(clock, random.Random(1), cast("Threads", None), MemoryFileSystem(), cast("Network", None))


def config(**changes: str) -> ServerConfig:
    properties = one_node_properties("/d1", "127.0.0.1", 9092) | {
        "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS)
    }
    return ServerConfig.from_properties(properties | {name.replace("_", "."): changes[name] for name in changes})[0]


def plan(*, open_transaction: bool = False) -> RecoveryPlan:
    producer = ProducerEntry(4_711, 3)
    if open_transaction:
        producer.txn_first_offset = 50
    partition = RecoverablePartition(
        topic_id_partition=ORDERS,
        log_start_offset=10,
        end_offset=60,
        leader_epochs=((0, 0), (2, 45)),
        producer_snapshot=encode_snapshot([producer]),
        segments=tuple(two_segments().segments),
    )
    return RecoveryPlan((RecoverableTopic("orders", ORDERS.topic_id, 2, {0: partition}),))


def recover(runtime: Runtime, recovery: RecoveryPlan, server: ServerConfig | None = None) -> RecoveredDir:
    return write_recovered_dir(runtime, server or config(), recovery, cluster_id=CLUSTER_ID)


def bootstrap(runtime: Runtime, kind: type[Any]) -> list[Any]:
    return [each for each in read_snapshot(runtime.fs, f"/d1/{BOOTSTRAP_SNAPSHOT}").records if isinstance(each, kind)]


def test_local_logs_are_empty_and_begin_where_the_tier_ends(runtime: Runtime) -> None:
    written = recover(runtime, plan())
    assert (written.cluster_id, written.partition_count, written.segment_count) == (CLUSTER_ID, 2, 2)
    fs = runtime.fs
    assert sorted(fs.listdir("/d1/orders-0")) == [
        "00000000000000000060.log",
        "00000000000000000060.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert read_file(fs, "/d1/orders-0/00000000000000000060.log") == b""
    assert decode_epochs(read_file(fs, "/d1/orders-0/leader-epoch-checkpoint")) == [(0, 0), (2, 45)]
    orders = TopicPartition("orders", 0)
    assert read_offset_checkpoint(fs, "/d1/log-start-offset-checkpoint")[orders] == 10
    assert read_offset_checkpoint(fs, "/d1/recovery-point-offset-checkpoint")[orders] == 60
    assert read_offset_checkpoint(fs, "/d1/replication-offset-checkpoint")[orders] == 60
    assert read_file(fs, "/d1/orders-1/00000000000000000000.log") == b""


def test_topics_keep_their_ids_and_nothing_is_deleted_by_default_retention(runtime: Runtime) -> None:
    recover(runtime, plan())
    assert {each.name: each.topic_id for each in bootstrap(runtime, TopicRecord)}["orders"] == ORDERS.topic_id
    directory = read_meta_properties(runtime.fs, "/d1").directory_id
    rows = [each for each in bootstrap(runtime, PartitionRecord) if each.topic_id == ORDERS.topic_id]
    assert [(row.partition_id, row.leader_epoch, row.replicas, row.directories) for row in rows] == [
        (0, 2, (1,), (directory,)),
        (1, 0, (1,), (directory,)),
    ]
    configs = {each.name: each.value for each in bootstrap(runtime, ConfigRecord) if each.resource_name == "orders"}
    assert configs == TOPIC_CONFIGS
    assert configs["retention.ms"] == "-1"


def test_metadata_topic_reports_every_segment(runtime: Runtime) -> None:
    recover(runtime, plan())
    index = metadata_partition_for(ORDERS, METADATA_PARTITIONS)
    history = TierHistory()
    data = read_file(runtime.fs, f"/d1/__remote_log_metadata-{index}/00000000000000000000.log")
    for position, header in iter_headers(data):
        for record in decode_records(data[position : position + header.size_in_bytes]):
            history.apply(decode_event(record.value or b""))
    assert history.faults == []
    assert {each.segment_id for each in history.finished()} == {each.segment_id for each in two_segments().segments}
    others = set(range(METADATA_PARTITIONS)) - {index}
    assert all(runtime.fs.exists(f"/d1/__remote_log_metadata-{each}") for each in others)


def test_new_producers_get_ids_that_no_log_knows(runtime: Runtime) -> None:
    recover(runtime, plan())
    (record,) = bootstrap(runtime, ProducerIdsRecord)
    assert record.next_producer_id == 5_000


def test_transaction_that_was_open_is_aborted(runtime: Runtime) -> None:
    assert recover(runtime, plan(open_transaction=True)).aborted_transactions == 1
    data = read_file(runtime.fs, "/d1/orders-0/00000000000000000060.log")
    ((_, header),) = iter_headers(data)
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (60, 4_711, 3)
    assert header.partition_leader_epoch == 2
    (record,) = decode_records(data)
    marker = parse_control_record(record)
    assert marker is not None
    assert not cast("Any", marker).committed
    orders = TopicPartition("orders", 0)
    assert read_offset_checkpoint(runtime.fs, "/d1/recovery-point-offset-checkpoint")[orders] == 60


def test_logs_are_spread_over_the_log_dirs(runtime: Runtime) -> None:
    written = recover(runtime, plan(), config(log_dirs="/d1,/d2"))
    assert written.log_dirs == ("/d1", "/d2")
    assert runtime.fs.exists("/d1/orders-0")
    assert runtime.fs.exists("/d2/orders-1")
    ids = {path: read_meta_properties(runtime.fs, path).directory_id for path in ("/d1", "/d2")}
    rows = [each for each in bootstrap(runtime, PartitionRecord) if each.topic_id == ORDERS.topic_id]
    assert [row.directories for row in rows] == [(ids["/d1"],), (ids["/d2"],)]


def test_directory_with_content_is_left_alone(runtime: Runtime) -> None:
    runtime.fs.makedirs("/d1/precious-0")
    with pytest.raises(ConfigError, match="/d1 is not empty"):
        recover(runtime, plan())
    assert runtime.fs.listdir("/d1") == ["precious-0"]


def test_node_that_is_not_alone_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    server = config(process_roles="controller", listeners="CONTROLLER://127.0.0.1:0", log_dirs=str(tmp_path))
    with pytest.raises(ConfigError, match="broker and controller"):
        recover(runtime, plan(), server)
