"""One of two disks fails, in many ways and at many moments: the other one goes on, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from crabka.errors import ConfigError, StorageError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem
from crabka.testing.faulty_file_system import disk_failure, no_space, read_only_disk
from tests.support.nodes.sim_node import SimNode, batch, row

DIRS = ("/d1", "/d2")
SMALL_SEGMENTS = {"internal_segment_bytes": "100", "file_delete_delay_ms": "10"}

Break = Callable[[str], list[FaultRule]]


def _dead(path: str) -> list[FaultRule]:
    return [disk_failure(path)]


def _full(path: str) -> list[FaultRule]:
    return [no_space(path)]


class TwoDisks(NamedTuple):
    """A node with a partition on each of two disks; that on the second is to be lost."""

    node: SimNode
    fs: FaultyFileSystem
    kept: int
    lost: int

    def damage(self, how: Break) -> None:
        """Let the second disk fail from now on."""
        self.fs.rules[:0] = how("/d2*")

    def repair(self) -> None:
        self.fs.rules.clear()

    def produce(self, value: bytes, partition: int) -> int:
        return self.node.produce("t", batch(value, key=value), partition=partition).error_code

    def check_only_one_is_lost(self) -> None:
        """The partition on the second disk is offline for everybody, the other works."""
        node = self.node
        assert node.context.logs.offline_dirs == ["/d2"]
        assert self.produce(b"x", self.lost) == ErrorCode.kafka_storage_error
        assert node.fetch("t", partition=self.lost).error_code is ErrorCode.kafka_storage_error
        assert self.produce(b"y", self.kept) == ErrorCode.none
        node.advance(100)
        known = node.context.image.topics.by_name["t"].partitions
        assert (known[self.lost].leader, known[self.kept].leader) == (-1, 1)
        assert node.context.image.cluster.brokers[1].directories == (node.context.logs.directory_id("/d1"),)
        described = node.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
        assert [each.error_code for each in described] == [ErrorCode.none, ErrorCode.kafka_storage_error]
        # Duties pass by the lost dir for as long as the node runs.
        node.advance(10 * 60_000)
        assert node.node is not None
        assert not node.node.failed.done()
        assert self.produce(b"z", self.kept) == ErrorCode.none


@pytest.fixture
def disks() -> Iterator[TwoDisks]:
    node = SimNode({"log.retention.check.interval.ms": "60000"}, log_dirs=DIRS)
    node.fs = fs = FaultyFileSystem(node.memory)
    with node:
        node.create_topic("t", 2, **SMALL_SEGMENTS)
        node.advance(10)
        places = {each.log.log_dir: each.index for each in node.context.partitions.of_topic("t").values()}
        two = TwoDisks(node, fs, places["/d1"], places["/d2"])
        for value in (b"a", b"b", b"c"):
            for partition in (0, 1):
                assert two.produce(value, partition) == ErrorCode.none
        yield two
        two.repair()


@pytest.mark.parametrize("how", [_dead, read_only_disk, _full], ids=["dead", "read-only", "full"])
def test_an_append_that_fails_takes_the_dir_offline(disks: TwoDisks, how: Break) -> None:
    disks.damage(how)
    assert disks.produce(b"refused", disks.lost) == ErrorCode.kafka_storage_error
    disks.check_only_one_is_lost()
    disks.repair()
    disks.node.restart()
    disks.node.advance(1000)
    assert disks.node.values("t", disks.lost)[:3] == [b"a", b"b", b"c"]
    assert disks.node.values("t", disks.kept) == [b"a", b"b", b"c", b"y", b"z"]
    assert disks.produce(b"again", disks.lost) == ErrorCode.none


def _read_cold(disks: TwoDisks) -> None:
    disks.fs.add(FaultRule(would_block=True))
    assert disks.node.fetch("t", partition=disks.lost).error_code is ErrorCode.kafka_storage_error


def _list_by_time(disks: TwoDisks) -> None:
    asked = row("ListOffsetsPartition", partition_index=disks.lost, timestamp=5, current_leader_epoch=-1)
    topics = [row("ListOffsetsTopic", name="t", partitions=[asked])]
    answer = disks.node.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.kafka_storage_error


def _delete_records(disks: TwoDisks) -> None:
    cut = row("DeleteRecordsPartition", partition_index=disks.lost, offset=2)
    topics = [row("DeleteRecordsTopic", name="t", partitions=[cut])]
    answer = disks.node.ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.kafka_storage_error


def _flush(disks: TwoDisks) -> None:
    disks.node.run(disks.node.context.logs.flush_dirty(1 << 60))  # type: ignore[arg-type] # a future can be awaited


def _checkpoint(disks: TwoDisks) -> None:
    disks.node.run(disks.node.context.logs.save_checkpoints())


def _retention(disks: TwoDisks) -> None:
    disks.node.set_configs(2, "t", retention_ms="1")
    disks.node.advance(61_000)
    disks.node.set_configs(2, "t", retention_ms="-1")


def _clean(disks: TwoDisks) -> None:
    disks.node.set_configs(2, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    disks.node.advance(60_000)


def _new_topic(disks: TwoDisks) -> None:
    disks.node.create_topic("u", 2)


@pytest.mark.parametrize(
    ("operations", "act"),
    [
        (("pread", "open"), _read_cold),
        (("*",), _list_by_time),
        (("pwritev", "rename", "open"), _delete_records),
        (("fsync",), _flush),
        (("fsync_dir",), _flush),
        (("pwritev",), _checkpoint),
        (("rename",), _checkpoint),
        (("fsync",), _checkpoint),
        (("rename",), _retention),
        (("unlink",), _retention),
        (("pread",), _clean),
        (("fsync",), _clean),
        (("makedirs",), _new_topic),
        (("pwritev",), _new_topic),
    ],
)
def test_whatever_fails_first_takes_the_dir_offline(
    disks: TwoDisks, operations: tuple[str, ...], act: Callable[[TwoDisks], None]
) -> None:
    disks.damage(lambda path: [FaultRule(operation=each, path=path, error=errno.EIO) for each in operations])
    act(disks)
    disks.check_only_one_is_lost()


def test_a_dir_that_is_broken_at_the_start_is_left_out(disks: TwoDisks) -> None:
    disks.node.stop()
    disks.damage(_dead)
    disks.node.start()
    disks.check_only_one_is_lost()
    disks.repair()
    disks.node.restart()
    disks.node.advance(1000)
    assert disks.node.values("t", disks.lost) == [b"a", b"b", b"c"]


def test_a_node_does_not_start_without_the_dir_of_its_metadata(disks: TwoDisks) -> None:
    disks.node.stop()
    disks.fs.add(disk_failure("/d1*"))
    with pytest.raises((ConfigError, StorageError, OSError), match="/d1"):
        disks.node.start()


def test_a_node_stops_when_its_last_disk_fails(disks: TwoDisks) -> None:
    disks.damage(_dead)
    assert disks.produce(b"x", disks.lost) == ErrorCode.kafka_storage_error
    disks.fs.rules[:0] = [disk_failure("/d1/t-*")]
    with contextlib.suppress(ConnectionResetError):
        assert disks.produce(b"x", disks.kept) == ErrorCode.kafka_storage_error
    assert disks.node.node is not None
    assert str(disks.node.node.failed.exception()) == "log dir /d1: the log dir of the metadata is lost"


def test_what_is_left_of_a_log_that_could_not_be_created_does_no_harm(disks: TwoDisks) -> None:
    disks.damage(lambda path: [FaultRule(operation="pwritev", path=path, error=errno.EIO)])
    disks.node.create_topic("u", 4)
    assert any(name.startswith("u-") for name in disks.node.memory.listdir("/d2"))
    for partition in range(4):
        assert disks.node.produce("u", batch(b"u"), partition=partition).error_code == ErrorCode.none
    disks.repair()
    disks.node.restart()
    disks.node.advance(1000)
    assert disks.node.context.logs.offline_dirs == []
    assert [disks.node.values("u", partition) for partition in range(4)] == [[b"u"]] * 4


def test_coordinators_on_a_lost_disk_send_clients_away_and_come_back_with_it(disks: TwoDisks) -> None:
    node = disks.node

    def find(group: str) -> ErrorCode:
        answer = node.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators[0].error_code
        assert isinstance(answer, ErrorCode)
        return answer

    def commit(group: str) -> ErrorCode:
        offset = row(
            "OffsetCommitRequestPartition",
            partition_index=0,
            committed_offset=1,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        answer = node.ask(
            ApiKey.OFFSET_COMMIT,
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[row("OffsetCommitRequestTopic", name="t", partitions=[offset])],
        )
        code = answer.topics[0].partitions[0].error_code
        assert isinstance(code, ErrorCode)
        return code

    groups = [f"group-{number}" for number in range(20)]
    find(groups[0])
    node.advance(2_000)
    assert {find(group) for group in groups} == {ErrorCode.none}
    assert {commit(group) for group in groups} == {ErrorCode.none}
    disks.damage(_dead)
    assert disks.produce(b"x", disks.lost) == ErrorCode.kafka_storage_error
    at_once = {commit(group) for group in groups}
    node.advance(1_000)
    later = {commit(group) for group in groups}
    for codes in (at_once, later):
        assert ErrorCode.none in codes
        assert codes - {ErrorCode.none} <= {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}
        assert len(codes) > 1
    assert {find(group) for group in groups} == {ErrorCode.none, ErrorCode.coordinator_not_available}
    disks.repair()
    node.restart()
    node.advance(2_000)
    assert {commit(group) for group in groups} == {ErrorCode.none}


@pytest.mark.parametrize("how", [_dead, read_only_disk, _full], ids=["dead", "read-only", "full"])
def test_a_target_that_fails_leaves_the_replica_where_it_was(disks: TwoDisks, how: Break) -> None:
    _begin_slow_move(disks, disks.kept, "/d2")
    disks.damage(how)
    disks.node.advance(5_000)
    assert disks.node.context.moves.progress() == []
    # A full disk has lost nothing: only the move is given up.
    assert disks.node.context.logs.offline_dirs == ([] if how is _full else ["/d2"])
    assert disks.node.context.partitions.by_name("t", disks.kept).log.log_dir == "/d1"
    assert disks.produce(b"later", disks.kept) == ErrorCode.none
    disks.repair()
    disks.node.restart()
    # What is on the disk that came back is gone on with.
    disks.node.advance(120_000)
    assert disks.node.context.moves.progress() == []
    assert disks.node.values("t", disks.kept) == [b"a", b"b", b"c", *[b"v"] * 60, b"later"]
    assert disks.produce(b"again", disks.kept) == ErrorCode.none


def test_a_source_that_fails_is_lost_with_its_replica(disks: TwoDisks) -> None:
    _begin_slow_move(disks, disks.lost, "/d1")
    disks.damage(_dead)
    assert disks.produce(b"x", disks.lost) == ErrorCode.kafka_storage_error
    disks.node.advance(60_000)
    assert disks.node.context.moves.progress() == []
    disks.check_only_one_is_lost()
    disks.repair()
    disks.node.restart()
    disks.node.advance(1000)
    assert disks.node.values("t", disks.lost)[:3] == [b"a", b"b", b"c"]
    assert disks.produce(b"again", disks.lost) == ErrorCode.none


def _begin_slow_move(disks: TwoDisks, partition: int, target: str) -> None:
    """Begin a move that takes long, and let it copy a part."""
    node = disks.node
    for _ in range(60):
        assert disks.produce(b"v", partition) == ErrorCode.none
    assert node.set_configs(4, "1", replica_alter_log_dirs_io_max_bytes_per_second="100") == 0
    topics = [row("AlterReplicaLogDirTopic", name="t", partitions=[partition])]
    moved = node.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[row("AlterReplicaLogDir", path=target, topics=topics)])
    assert moved.results[0].partitions[0].error_code is ErrorCode.none
    node.advance(3_000)
    assert [each.target_dir for each in node.context.moves.progress()] == [target]
