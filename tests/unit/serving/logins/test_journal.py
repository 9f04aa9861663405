"""Refused log-ins: all are counted, few are logged."""

from __future__ import annotations

import pytest

from crabka.net.dispatch import ConnectionInfo
from crabka.serving.logins.journal import INTERVAL_MS, LINES_PER_INTERVAL, LoginJournal
from tests.support.wire.net import ManualClock

CLIENT = ConnectionInfo(1, "CLIENTS", "10.0.0.7", 4711)


def test_few_lines_for_many_refusals(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    journal = LoginJournal(clock)
    for _ in range(100):
        journal.note_refusal(CLIENT, "PLAIN", "no")
    assert len(caplog.messages) == LINES_PER_INTERVAL
    assert caplog.messages[0] == "log-in of 10.0.0.7:4711 refused at listener CLIENTS (PLAIN): no"
    clock.ms += INTERVAL_MS
    journal.note_refusal(CLIENT, None, "it sent garbage")
    left = 100 - LINES_PER_INTERVAL
    assert caplog.messages[-1] == (
        "log-in of 10.0.0.7:4711 refused at listener CLIENTS (no mechanism yet): it sent garbage;"
        f" {left} more were refused and not logged"
    )
    assert journal.refusal_count == 101


def test_counts() -> None:
    journal = LoginJournal(ManualClock())
    journal.note_login()
    journal.note_ended_session()
    assert (journal.login_count, journal.ended_session_count, journal.refusal_count) == (1, 1, 0)
