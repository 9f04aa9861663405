from __future__ import annotations

import pytest

from crabka.log.recovery.cuts import CutStats, LogCut


def test_a_cut_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    stats = CutStats()
    stats.note_cut(LogCut("/d/t-0/0.log", 70, 30, 4, "a batch cannot have 0 bytes"))
    stats.note_cut(LogCut("/d/t-0/9.log", 0, 12, 9, "the segment before it was cut"))
    assert (stats.cuts, stats.cut_bytes) == (2, 42)
    assert caplog.messages[0] == (
        "cut 30 bytes of a log: /d/t-0/0.log: bytes 70 to 100, from offset 4 on: a batch cannot have 0 bytes"
    )
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_file_that_is_built_anew_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    stats = CutStats()
    stats.note_rebuilt("/d/checkpoint", "no version")
    assert stats.rebuilt_files == 1
    assert caplog.messages == ["/d/checkpoint is not used and built anew: no version"]


def test_a_file_that_is_healed_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    stats = CutStats()
    stats.note_healed("/d/meta.properties: its bytes have changed")
    assert stats.rebuilt_files == 1
    assert caplog.messages == ["/d/meta.properties: its bytes have changed"]
