"""Where two logs part, by the examples of KIP-101 and KIP-279."""

from __future__ import annotations

import pytest

from crabka.broker.replication.truncation import diverging_epoch, truncation_offset
from crabka.errors import OperationError
from crabka.formats.leader_epochs import EpochEnd
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.protocol.error_codes import ErrorCode


class Log:
    """Epochs with their start offsets, and an end."""

    def __init__(self, end_offset: int, *epochs: tuple[int, int]) -> None:
        self.end_offset = end_offset
        self._cache = LeaderEpochCache(epochs)

    def end_for(self, epoch: int) -> EpochEnd:
        return self._cache.lineage.end_offset_for(epoch, self.end_offset)


def answer(leader: Log, follower: Log, last_epoch: int) -> EpochEnd | None:
    return diverging_epoch(leader.end_for, last_fetched_epoch=last_epoch, fetch_offset=follower.end_offset)


def cut(leader: Log, follower: Log, last_epoch: int, high_watermark: int = 0) -> int:
    diverging = answer(leader, follower, last_epoch)
    assert diverging is not None
    return truncation_offset(
        diverging, follower.end_for, log_end_offset=follower.end_offset, high_watermark=high_watermark
    )


def test_a_follower_that_is_behind_just_goes_on() -> None:
    leader = Log(10, (0, 0), (1, 5))
    assert answer(leader, Log(7, (0, 0), (1, 5)), 1) is None
    assert answer(leader, Log(5, (0, 0)), 0) is None
    assert answer(leader, Log(3, (0, 0)), 0) is None
    assert answer(leader, Log(10, (0, 0), (1, 5)), 1) is None


def test_a_follower_without_epochs_is_trusted() -> None:
    assert diverging_epoch(Log(10, (0, 0)).end_for, last_fetched_epoch=-1, fetch_offset=99) is None


def test_records_of_an_older_leader_are_cut_off() -> None:
    leader, follower = Log(10, (0, 0), (1, 5)), Log(8, (0, 0))
    assert answer(leader, follower, 0) == EpochEnd(0, 5)
    assert cut(leader, follower, 0) == 5


def test_nothing_is_cut_that_both_have_although_the_high_watermark_is_lower() -> None:
    # The loss of KIP-101: a follower that restarted would cut at its high watermark and lead with less.
    leader, follower = Log(8, (0, 0)), Log(8, (0, 0))
    assert answer(leader, follower, 0) is None


def test_records_below_the_high_watermark_are_cut_if_another_leader_wrote_them() -> None:
    # The divergence of KIP-101: equal offsets, unequal records.
    leader, follower = Log(6, (0, 0), (2, 4)), Log(6, (0, 0), (1, 4))
    assert answer(leader, follower, 1) == EpochEnd(0, 4)
    assert cut(leader, follower, 1, high_watermark=6) == 4


def test_an_epoch_that_the_leader_does_not_know_takes_several_rounds() -> None:
    # KIP-279: fast changes of leaders interleave epochs.
    leader, follower = Log(20, (1, 0), (4, 15)), Log(19, (1, 0), (2, 10), (3, 13))
    assert answer(leader, follower, 3) == EpochEnd(1, 15)
    assert cut(leader, follower, 3) == 10
    shorter = Log(10, (1, 0))
    assert answer(leader, shorter, 1) is None


def test_a_follower_that_lacks_the_leaders_epoch_cuts_to_its_newest_older_one() -> None:
    leader, follower = Log(20, (1, 0), (2, 5), (4, 9)), Log(12, (1, 0), (3, 8))
    assert answer(leader, follower, 3) == EpochEnd(2, 9)
    assert cut(leader, follower, 3) == 8


def test_a_leader_that_knows_nothing_of_an_epoch_says_out_of_range() -> None:
    with pytest.raises(OperationError) as caught:
        answer(Log(10, (0, 0)), Log(12, (0, 0), (5, 10)), 5)
    assert caught.value.error_code is ErrorCode.offset_out_of_range


def test_without_epochs_only_the_high_watermark_is_left() -> None:
    follower = Log(9, (0, 0))
    assert truncation_offset(EpochEnd(-1, -1), follower.end_for, log_end_offset=9, high_watermark=4) == 4
    assert truncation_offset(EpochEnd(0, 6), Log(9).end_for, log_end_offset=9, high_watermark=4) == 6
    assert truncation_offset(EpochEnd(0, 60), Log(9).end_for, log_end_offset=9, high_watermark=4) == 9
