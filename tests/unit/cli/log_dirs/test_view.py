"""What is shown of log dirs."""

from __future__ import annotations

from crabka.cli.log_dirs.view import (
    DIR_COLUMNS,
    MOVE_COLUMNS,
    RunningMove,
    dir_rows,
    move_rates,
    move_rows,
    running_moves,
)
from crabka.cli.output import column_of, table_lines
from crabka.clients.admin.admin_types import LogDirDescription, ReplicaInfo
from crabka.ids import TopicPartition

T0 = TopicPartition("t", 0)
DIRS = {
    1: [
        LogDirDescription("/a", {("t", 0): ReplicaInfo(4096, 0, is_future=False)}, 10_000, 3_000),
        LogDirDescription("/b", {("t", 0): ReplicaInfo(1024, 7, is_future=True)}, -1, -1, is_cordoned=True),
        LogDirDescription("/c", {}, -1, -1, is_online=False),
    ]
}
MOVE = RunningMove(1, T0, "/a", "/b", 1024, 4096, 7)


def test_every_dir_has_a_row_with_its_state() -> None:
    rows = dir_rows(DIRS)
    assert [(row["dir"], row["state"], row["partitions"], row["moving_in"]) for row in rows] == [
        ("/a", "online", 1, 0),
        ("/b", "cordoned", 0, 1),
        ("/c", "offline", None, 0),
    ]
    assert [(row["size_bytes"], row["free_bytes"], row["total_bytes"]) for row in rows] == [
        (4096, 3_000, 10_000),
        (0, None, None),
        (None, None, None),
    ]


def test_a_future_replica_is_a_move() -> None:
    assert running_moves(DIRS) == [MOVE]
    assert MOVE.share == 0.25
    assert running_moves({1: DIRS[1][1:]}) == [RunningMove(1, T0, None, "/b", 1024, 1024, 7)]


def test_an_empty_replica_is_done() -> None:
    assert MOVE._replace(size_bytes=0, copied_bytes=0).share == 1.0


def test_speed_is_what_came_between_two_looks() -> None:
    later = [MOVE._replace(copied_bytes=3072), MOVE._replace(partition=TopicPartition("new", 0))]
    assert move_rates([MOVE], later, 2.0) == {(1, T0): 1024.0}
    assert move_rates([MOVE], later, 0.0) == {}
    # A move that began again is not faster than standing still.
    assert move_rates([MOVE], [MOVE._replace(copied_bytes=0)], 1.0) == {(1, T0): 0.0}
    assert [row["bytes_per_s"] for row in move_rows(later, {(1, T0): 10.4})] == [10, None]


def test_a_table_of_80_columns_has_every_size_and_state() -> None:
    shown = "\n".join(table_lines([column_of(each) for each in DIR_COLUMNS], dir_rows(DIRS), width=80))
    for text in ("/c", "offline", "cordoned", "4.0 KiB", "2.9 KiB"):
        assert text in shown
    moves = move_rows([MOVE], {(1, T0): 512.0})
    shown = "\n".join(table_lines([column_of(each) for each in MOVE_COLUMNS], moves, width=80))
    for text in ("/b", "1.0 KiB", "4.0 KiB", "512 B/s"):
        assert text in shown
