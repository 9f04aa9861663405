"""Flushes of one log that overlap, with power cuts: what was reported durable is there, and so is its leader epoch."""

from __future__ import annotations

import pytest

from tests.support.scale import scaled
from tests.support.storage.flush_world import run_flushes

CHUNKS = 5


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_flushes_that_overlap_lose_nothing(chunk: int) -> None:
    for seed in range(chunk, scaled(100, 5000), CHUNKS):
        try:
            run_flushes(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
