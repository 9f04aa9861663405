"""Elections without an end do not fill the log of a voter."""

from __future__ import annotations

import logging

import pytest

from crabka.kraft.actions import ElectionState, RoleChanged
from crabka.kraft.roles import RoleName
from crabka.quorum.raft.role_log import RoleLog
from tests.support.wire.net import ManualClock


def change(after: RoleName, leader_id: int | None = None) -> RoleChanged:
    return RoleChanged(RoleName.UNATTACHED, after, ElectionState(5, leader_id), "election time-out")


def stand_for_election(log: RoleLog) -> None:
    log.note(change(RoleName.PROSPECTIVE))
    log.note(change(RoleName.UNATTACHED))


def test_elections_without_an_end_become_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    log = RoleLog(logging.getLogger("voter"), clock)
    for _ in range(60):
        stand_for_election(log)
        clock.ms += 2_000
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO"] * 4 + ["WARNING"] * 2
    assert "no leader for 4 s, epoch 5: election time-out" in caplog.messages[4]
    assert "no leader for 64 s" in caplog.messages[5]


def test_a_leader_ends_the_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = RoleLog(logging.getLogger("voter"), ManualClock())
    for _ in range(9):
        stand_for_election(log)
    before = len(caplog.records)
    log.note(change(RoleName.FOLLOWER, leader_id=2))
    stand_for_election(log)
    assert caplog.messages[before:] == [
        "Follower in epoch 5, leader 2: election time-out",
        "Prospective in epoch 5, leader None: election time-out",
        "Unattached in epoch 5, leader None: election time-out",
    ]
