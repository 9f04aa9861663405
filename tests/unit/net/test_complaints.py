from __future__ import annotations

import logging

import pytest

from crabka.errors import WireError
from crabka.net.complaints import MAX_REMEMBERED, REPEAT_SECONDS, Complaints


def test_a_peer_is_complained_about_once_for_each_mistake(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    with caplog.at_level(logging.WARNING):
        assert complaints.warn("10.0.0.1", WireError("a"), 0.0)
        assert not complaints.warn("10.0.0.1", WireError("a"), REPEAT_SECONDS - 1)
        assert complaints.warn("10.0.0.1", WireError("b"), 1.0)
        assert complaints.warn("10.0.0.2", WireError("a"), 1.0)
    assert len(caplog.records) == 3


def test_a_complaint_is_repeated_after_a_while() -> None:
    complaints = Complaints()
    assert complaints.warn("10.0.0.1", WireError("a"), 0.0)
    assert complaints.warn("10.0.0.1", WireError("a"), REPEAT_SECONDS)


def test_only_a_limited_number_of_peers_is_remembered() -> None:
    complaints = Complaints()
    for number in range(MAX_REMEMBERED + 1):
        assert complaints.warn(f"peer {number}", WireError("a"), 0.0)
    assert complaints.warn("peer 0", WireError("a"), 0.0)
    assert not complaints.warn(f"peer {MAX_REMEMBERED}", WireError("a"), 0.0)
