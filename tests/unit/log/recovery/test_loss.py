from __future__ import annotations

import pytest

from crabka.log.recovery.cuts import LogCut
from crabka.log.recovery.loss import LogLoss, find_loss

CUT = LogCut("/d/t-0/0.log", 70, 30, 4, "the checksum does not match")


@pytest.mark.parametrize(("recovery_point", "high_watermark"), [(10, 0), (0, 10), (10, 10), (0, 0)])
def test_what_the_checkpoints_do_not_reach_was_a_torn_write(recovery_point: int, high_watermark: int) -> None:
    found = find_loss(10, recovery_point=recovery_point, high_watermark=high_watermark, cuts=[CUT], path="/d/t-0/0.log")
    assert found is None


@pytest.mark.parametrize(("recovery_point", "high_watermark"), [(10, 3), (3, 10)])
def test_what_was_durable_or_committed_is_a_loss(recovery_point: int, high_watermark: int) -> None:
    found = find_loss(4, recovery_point=recovery_point, high_watermark=high_watermark, cuts=[CUT], path="/d/t-0/9.log")
    assert found == LogLoss(4, 10, "/d/t-0/0.log", "the checksum does not match", is_durable=recovery_point == 10)
    assert str(found) == "offsets 4 to 9 are lost (/d/t-0/0.log: the checksum does not match)"


def test_a_loss_without_a_cut_names_what_was_known() -> None:
    found = find_loss(4, recovery_point=10, high_watermark=3, cuts=[], path="/d/t-0/0.log")
    assert found is not None
    assert "recovery point" in found.reason
    found = find_loss(4, recovery_point=3, high_watermark=10, cuts=[], path="/d/t-0/0.log")
    assert found is not None
    assert "high watermark" in found.reason
