"""Finds wrong epochs in a metadata log. Pure.

The checksums of batches do not cover epochs, but epochs never decrease.

A run is a series of batches of one epoch. A run between two runs of the same epoch is certainly wrong, and its right
epoch is known. Where epochs decrease otherwise, one of two runs is wrong, and the log is valid only up to the first of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crabka.kraft.log_view import OffsetAndEpoch


class EpochRun(NamedTuple):
    """Batches of one epoch, from `offset` on."""

    epoch: int
    offset: int


class WrongRun(NamedTuple):
    """Batches in [offset, end_offset) whose epoch must be `epoch`."""

    offset: int
    end_offset: int
    found: int
    epoch: int


class ResolvedEpochs(NamedTuple):
    """The corrected epochs, the wrong runs, and the offset from which epochs are unknown, if any."""

    runs: list[EpochRun]
    wrong: list[WrongRun]
    unknown_from: int | None = None


def resolve_epochs(runs: Sequence[EpochRun], end_offset: int, noted: OffsetAndEpoch | None) -> ResolvedEpochs:
    """Correct the epochs of a log that ends at `end_offset`; a durable end `noted` there gives its last epoch."""
    resolved: list[EpochRun] = []
    wrong: list[WrongRun] = []
    following = [*runs[1:], EpochRun(noted.epoch if noted and noted.offset == end_offset else -1, end_offset)]
    for run, after in zip(runs, following, strict=False):
        before = resolved[-1].epoch if resolved else -1
        is_between = resolved and before == after.epoch
        if run.epoch != before and is_between:
            wrong.append(WrongRun(run.offset, after.offset, run.epoch, before))
        elif run.epoch < before:
            # The previous run may be the wrong one, unless the run before it has a later epoch as well.
            is_certain = len(resolved) > 1 and resolved[-2].epoch > run.epoch
            return ResolvedEpochs(*_cut(resolved, wrong, run.offset if is_certain else resolved[-1].offset))
        elif run.epoch > before:
            resolved.append(run)
    if noted is not None and noted.offset == end_offset and resolved and resolved[-1].epoch != noted.epoch:
        return ResolvedEpochs(*_cut(resolved, wrong, resolved[-1].offset))
    return ResolvedEpochs(resolved, wrong)


def _cut(resolved: list[EpochRun], wrong: list[WrongRun], offset: int) -> tuple[list[EpochRun], list[WrongRun], int]:
    kept = [run for run in resolved if run.offset < offset]
    return kept, [each for each in wrong if each.offset < offset], offset
