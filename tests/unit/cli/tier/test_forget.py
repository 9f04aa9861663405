"""Which segments an operator may give up. Writing it down is tested with the command."""

from __future__ import annotations

import pytest

from crabka.cli.tier.forget import is_foreign
from crabka.clients.fetcher.offsets import OffsetAndTimestamp
from crabka.testing.remote_samples import sample_segment


@pytest.mark.parametrize(
    ("epochs", "start", "end", "is_given_up"),
    [
        ({0: 0}, (0, 0), 200, False),
        # The log ends before the segment does.
        ({0: 0}, (0, 0), 99, True),
        ({0: 0}, (0, -1), 0, True),
        # The log begins in a later epoch, at offsets that the segment has as well.
        ({0: 0, 1: 50}, (0, 2), 500, True),
        ({0: 0, 1: 50}, (0, 1), 500, False),
        # Retention removes what lies below the log start by itself.
        ({0: 0}, (100, 2), 500, False),
    ],
)
def test_only_what_is_no_part_of_the_log_is_given_up(
    epochs: dict[int, int], start: tuple[int, int], end: int, *, is_given_up: bool
) -> None:
    segment = sample_segment(1, (0, 99), epochs)
    offset, leader_epoch = start
    assert is_foreign(segment, OffsetAndTimestamp(offset, -1, leader_epoch), end) is is_given_up
