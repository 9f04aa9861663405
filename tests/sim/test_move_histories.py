"""Replicas move between log dirs while the power fails, disks die, logs are cut, trimmed and moved elsewhere."""

from __future__ import annotations

import pytest

from tests.support.moves.histories import run
from tests.support.scale import scaled
from tests.support.seeds import base_seed


@pytest.mark.parametrize("part", range(8))
def test_one_copy_survives_with_everything_that_was_promised(part: int) -> None:
    count = scaled(4, 80)
    first = base_seed() * 1000 + part * count
    for seed in range(first, first + count):
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
