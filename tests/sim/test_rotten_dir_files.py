"""A node whose small files rot while it is stopped or runs: each is right again, and no report of it is lost."""

from __future__ import annotations

import pytest

from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.quorum.raft.state_file import read_quorum_state
from crabka.vfs import read_file, write_atomic
from tests.support.nodes.sim_node import SimNode, batch

META = "/d1/meta.properties"
LOG_START = "/d1/log-start-offset-checkpoint"
STATE = "/d1/__cluster_metadata-0/quorum-state"
HOUR_MS = 3_600_000


def fill(node: SimNode) -> None:
    """Produce ten records and delete the first two."""
    node.create_topic("t")
    node.produce("t", batch(*(b"%d" % number for number in range(10))))
    log = node.context.partitions.by_name("t", 0).log
    log.retention.delete_records_before(2)
    node.run(node.context.logs.flush_log(log))
    node.run(node.context.logs.save_log_starts(["/d1"]))
    assert [*read_offset_checkpoint(node.memory, LOG_START).values()] == [2]


def change(node: SimNode, path: str, old: bytes, new: bytes) -> None:
    """Let bytes rot into others of the same number."""
    position = read_file(node.memory, path).index(old)
    for index, (one, other) in enumerate(zip(old, new, strict=True)):
        if one != other:
            node.memory.rot(path, position + index, one ^ other)
    assert new in read_file(node.memory, path)


@pytest.mark.parametrize("is_crash", [False, True], ids=["stopped", "power cut"])
def test_records_stay_readable_when_the_log_start_rots_upwards(is_crash: bool) -> None:
    with SimNode() as node:
        fill(node)
        if is_crash:
            node.crash()
        else:
            node.stop()
        change(node, LOG_START, b"t 0 2", b"t 0 9")
        node.start()
        assert node.values("t") == [b"%d" % number for number in range(2, 10)]
        assert node.context.logs.cuts.rebuilt_files == 1


def test_deleted_records_stay_deleted_when_the_log_start_rots_downwards() -> None:
    with SimNode() as node:
        fill(node)
        node.stop()
        change(node, LOG_START, b"t 0 2", b"t 0 0")
        node.start()
        assert node.context.partitions.by_name("t", 0).log.log_start_offset == 2


def test_replicas_are_not_lost_when_the_directory_id_rots() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        node.create_topic("t", 2)
        (partition,) = [each.partition for each in node.context.logs if each.log_dir == "/d2"]
        node.produce("t", batch(b"a"), partition=partition)
        known = node.context.logs.directory_id("/d2")
        node.stop()
        path = "/d2/meta.properties"
        start = read_file(node.memory, path).index(b"directory.id=") + len(b"directory.id=")
        node.memory.rot(path, start, 3)
        node.start()
        assert node.context.logs.directory_id("/d2") == known
        assert node.values("t", partition) == [b"a"]


@pytest.mark.parametrize("change_to", [(b"node.id=1", b"node.id=3"), (b"version=1", b"version=q"), (b"node", b"nod!")])
def test_a_damaged_identity_does_not_stop_the_start(change_to: tuple[bytes, bytes]) -> None:
    with SimNode() as node:
        fill(node)
        node.stop()
        before = read_file(node.memory, META)
        change(node, META, *change_to)
        node.start()
        assert read_file(node.memory, META) == before


def test_a_rotten_election_is_that_which_was_written() -> None:
    with SimNode() as node:
        fill(node)
        node.stop()
        before = read_quorum_state(node.memory, "/d1/__cluster_metadata-0")
        assert before is not None
        change(node, STATE, b'"votedId":1', b'"votedId":3')
        node.start()
        assert node.node is not None
        assert node.node.quorum.election_file_repairs == 1
        assert node.node.quorum.leader_epoch > before.leader_epoch


def test_what_kafka_wrote_in_between_counts() -> None:
    with SimNode() as node:
        fill(node)
        node.stop()
        node.advance(1000)
        write_atomic(node.memory, LOG_START, b"0\n1\nt 0 4\n")
        node.start()
        assert node.values("t") == [b"%d" % number for number in range(4, 10)]


def test_files_of_a_running_node_are_verified_in_each_round() -> None:
    with SimNode({"crabka.log.scrub.interval.ms": str(HOUR_MS)}) as node:
        fill(node)
        before = {path: read_file(node.memory, path) for path in (META, STATE)}
        change(node, META, b"node.id=1", b"node.id=3")
        change(node, STATE, b'"votedId":1', b'"votedId":3')
        node.advance(2 * HOUR_MS)
        assert {path: read_file(node.memory, path) for path in (META, STATE)} == before
        assert node.context.scrubber.stats.files_repaired == 2
