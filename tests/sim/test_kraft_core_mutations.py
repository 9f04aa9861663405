"""The quorum simulation finds what it is there to find: each planted bug breaks a named fact.

A normal run looks at a seed that is known to show the bug, then at a few more: a change of the core changes what the
seeds hold, and most bugs show soon. A soak searches without knowing, and names the seed to keep.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.kraft_sim import checks, planted
from tests.support.kraft_sim.__main__ import main
from tests.support.kraft_sim.checks import BrokenQuorumError
from tests.support.kraft_sim.world import run_world
from tests.support.scale import soaking

SEARCHED = range(1, 2_001)
A_FEW = range(1, 31)

KNOWN: dict[Callable[[pytest.MonkeyPatch], None], tuple[int, set[str]]] = {
    planted.forget_the_vote: (64, {checks.ONE_VOTE, checks.ONE_LEADER, checks.COMMITTED_KEPT}),
    planted.answer_before_quorum_state_is_durable: (1, {checks.MONOTONE_EPOCH}),
    planted.skip_fsync_of_the_log: (1, {checks.MAJORITY_HOLDS}),
    planted.fetch_before_fsync: (1, {checks.MAJORITY_HOLDS}),
    planted.count_the_leader_before_fsync: (4, {checks.MAJORITY_HOLDS}),
    planted.commit_earlier_epochs_by_counting: (623, {checks.COMMITTED_KEPT, checks.COMMITTED_EQUAL}),
    planted.count_observers: (1, {checks.MAJORITY_HOLDS}),
    planted.count_a_removed_leader: (5, {checks.MAJORITY_HOLDS}),
    planted.lead_without_a_real_vote: (5, {checks.ONE_LEADER, checks.COMMITTED_KEPT}),
    planted.vote_for_a_shorter_log: (1, {checks.COMMITTED_KEPT}),
    planted.cut_where_the_leader_says: (2, {checks.LIVENESS, checks.COMMITTED_EQUAL}),
    planted.never_truncate: (1, {checks.LIVENESS}),
    planted.keep_voters_of_a_cut_log: (5, {checks.CONSISTENT}),
    planted.change_voters_before_committing: (2, {checks.VOTERS_ONE_BY_ONE}),
    planted.trust_an_old_log_after_restart: (118, {checks.COMMITTED_EQUAL, checks.ONE_LEADER}),
    planted.ignore_the_durable_end: (40, {checks.COMMITTED_KEPT, checks.COMMITTED_EQUAL}),
    planted.forget_the_loss_at_a_restart: (46, {checks.COMMITTED_KEPT, checks.MAJORITY_HOLDS}),
    planted.vote_without_the_lost_entries: (86, {checks.COMMITTED_KEPT, checks.COMMITTED_EQUAL}),
    planted.lose_voters_after_restart: (8, {checks.VOTERS_ONE_BY_ONE, checks.COMMITTED_KEPT, checks.CONSISTENT}),
}


@pytest.mark.parametrize("plant", planted.PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    known, names = KNOWN[plant]
    plant(monkeypatch)
    for seed in SEARCHED if soaking() else [known, *A_FEW]:
        name = _broken_fact(seed)
        if name is not None:
            print(f"{plant.__name__} shows in seed {seed}: {name}")
            assert name in names
            return
    pytest.fail(f"{plant.__name__} is not found: a soak finds the seed that shows it now")


def test_a_broken_seed_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    planted.skip_fsync_of_the_log(monkeypatch)
    seed, _ = KNOWN[planted.skip_fsync_of_the_log]
    assert main(["--seed", str(seed)]) == 1
    assert f"BROKEN {checks.MAJORITY_HOLDS}" in capsys.readouterr().out
    assert main(["--seeds", "1", "--first", str(seed)]) == 1
    assert "1 seeds, 1 broken" in capsys.readouterr().out


def _broken_fact(seed: int) -> str | None:
    try:
        run_world(seed)
    except BrokenQuorumError as error:
        return error.name
    return None
