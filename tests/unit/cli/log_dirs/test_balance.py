"""Plans that even out log dirs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.cli.log_dirs.balance import PlannedMove, plan_balance
from crabka.clients.admin.admin_types import LogDirDescription, ReplicaInfo
from crabka.ids import TopicPartition

Sizes = dict[int, int]


def log_dir(path: str, sizes: Sizes | None = None, *, future: Sizes | None = None, **facts: int) -> LogDirDescription:
    """A dir with replicas of topic t: index -> bytes."""
    replicas = {("t", index): ReplicaInfo(size, 0, is_future=False) for index, size in (sizes or {}).items()}
    replicas |= {("t", index): ReplicaInfo(size, 1, is_future=True) for index, size in (future or {}).items()}
    return LogDirDescription(
        path,
        replicas,
        facts.get("total", -1),
        facts.get("free", -1),
        is_cordoned=bool(facts.get("cordoned")),
        is_online=bool(facts.get("online", 1)),
    )


def held(dirs: list[LogDirDescription], moves: list[PlannedMove]) -> dict[str, int]:
    """What each dir holds after the moves."""
    used = {each.path: sum(replica.size_bytes for replica in each.replicas.values()) for each in dirs}
    for move in moves:
        used[move.source] -= move.size_bytes
        used[move.target] += move.size_bytes
    return used


def test_a_new_dir_gets_its_share() -> None:
    dirs = [log_dir("/a", {0: 40, 1: 30, 2: 20, 3: 10}), log_dir("/b")]
    moves = plan_balance(dirs)
    assert held(dirs, moves) == {"/a": 50, "/b": 50}


def test_the_replica_that_fits_best_moves() -> None:
    dirs = [log_dir("/a", {0: 90, 1: 52, 2: 3}), log_dir("/b", {3: 45})]
    assert plan_balance(dirs) == [PlannedMove(TopicPartition("t", 1), "/a", "/b", 52)]


def test_even_dirs_are_left_alone() -> None:
    assert plan_balance([log_dir("/a", {0: 100}), log_dir("/b", {1: 95})]) == []
    assert plan_balance([log_dir("/a", {0: 100})]) == []
    assert plan_balance([]) == []


def test_a_replica_that_is_larger_than_the_gap_stays() -> None:
    assert plan_balance([log_dir("/a", {0: 100}), log_dir("/b", {1: 10})], tolerance=0.0) == []


def test_dirs_that_failed_or_are_cordoned_get_nothing() -> None:
    dirs = [log_dir("/a", {0: 50, 1: 50}), log_dir("/b", online=0), log_dir("/c", cordoned=1)]
    assert plan_balance(dirs) == []


def test_a_cordoned_dir_is_emptied_on_demand() -> None:
    dirs = [log_dir("/a", {0: 50, 1: 30}, cordoned=1), log_dir("/b", {2: 10}), log_dir("/c")]
    assert plan_balance(dirs) == []
    moves = plan_balance(dirs, drain=True)
    assert held(dirs, moves) == {"/a": 0, "/b": 40, "/c": 50}


def test_a_target_keeps_some_room() -> None:
    full = log_dir("/a", {0: 40, 1: 40, 2: 40})
    assert [move.target for move in plan_balance([full, log_dir("/b", total=100, free=50)])] == ["/b"]
    assert plan_balance([full, log_dir("/b", total=100, free=44)]) == []


def test_moves_under_way_count_as_done() -> None:
    dirs = [log_dir("/a", {0: 50, 1: 50}), log_dir("/b", future={0: 5})]
    assert plan_balance(dirs) == []
    small = [log_dir("/a", {0: 50, 1: 50, 2: 50, 3: 50}), log_dir("/b", future={0: 5}, total=1000, free=120)]
    # The rest of what is on its way needs 45 of the 70 that may be used.
    assert plan_balance(small) == []


@given(
    st.lists(st.lists(st.integers(0, 1000), max_size=8), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.booleans(),
)
def test_no_plan_makes_things_worse(sizes: list[list[int]], cordoned: list[bool], drain: bool) -> None:
    dirs = [
        log_dir(
            f"/d{number}", {number * 100 + index: size for index, size in enumerate(each)}, cordoned=cordoned[number]
        )
        for number, each in enumerate(sizes)
    ]
    moves = plan_balance(dirs, drain=drain)
    assert len({move.partition for move in moves}) == len(moves)
    closed = {each.path for each in dirs if each.is_cordoned}
    assert not closed & {move.target for move in moves}
    before, after = held(dirs, []), held(dirs, moves)
    if not drain:
        opened = set(before) - closed
        assert not closed & {move.source for move in moves}
        spread = [[used[path] for path in opened] for used in (before, after)]
        if opened:
            assert max(spread[1]) <= max(spread[0])
            assert min(spread[1]) >= min(spread[0])
    elif closed != set(before):
        assert all(after[path] == 0 for path in closed)


def test_many_replicas_come_out_within_the_tolerance() -> None:
    dirs = [log_dir("/a", {index: 10 + index % 7 for index in range(200)}), log_dir("/b"), log_dir("/c")]
    after = held(dirs, plan_balance(dirs)).values()
    assert max(after) - min(after) <= 0.1 * sum(after) / 3
