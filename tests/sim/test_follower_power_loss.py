"""Power fails while a follower cuts its log and follows a new leader; the disk forgets what was not synced.

What is left must be a beginning of the log as it was before the cut or of the leader's, whatever the moment: no hole,
no record of one behind records of the other. What was synced and is in both must be there. In the end both are equal.
"""

from __future__ import annotations

import pytest

from tests.support.power_loss.follower import run

SEED_COUNT = 150


@pytest.mark.parametrize("chunk", range(5))
def test_a_cut_log_is_whole_after_a_power_loss(chunk: int) -> None:
    for seed in range(chunk, SEED_COUNT, 5):
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
