from __future__ import annotations

import pytest

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.quorum.log.epoch_runs import EpochRun, ResolvedEpochs, WrongRun, resolve_epochs


def runs(*epochs: int) -> list[EpochRun]:
    """Ten offsets of each epoch."""
    return [EpochRun(epoch, 10 * number) for number, epoch in enumerate(epochs)]


def resolve(*epochs: int, noted: tuple[int, int] | None = None) -> ResolvedEpochs:
    return resolve_epochs(runs(*epochs), 10 * len(epochs), None if noted is None else OffsetAndEpoch(*noted))


@pytest.mark.parametrize("epochs", [(), (1,), (1, 2, 5)])
def test_epochs_that_rise_are_right(epochs: tuple[int, ...]) -> None:
    assert resolve(*epochs) == ResolvedEpochs(runs(*epochs), [])


@pytest.mark.parametrize("odd", [2, 9])
def test_what_lies_between_batches_of_one_epoch_has_that_epoch(odd: int) -> None:
    found = resolve(1, 5, odd, 5, 6)
    assert found.wrong == [WrongRun(20, 30, odd, 5)]
    assert (found.runs, found.unknown_from) == ([EpochRun(1, 0), EpochRun(5, 10), EpochRun(6, 40)], None)


@pytest.mark.parametrize("odd", [3, 9])
def test_the_note_names_the_epoch_at_the_end(odd: int) -> None:
    assert resolve(5, odd, noted=(20, 5)) == ResolvedEpochs([EpochRun(5, 0)], [WrongRun(10, 20, odd, 5)])
    # It says nothing of another end.
    assert resolve(5, 9, noted=(19, 5)) == ResolvedEpochs(runs(5, 9), [])


def test_a_log_of_another_epoch_than_noted_at_its_end_does_not_count() -> None:
    assert resolve(5, 9, noted=(20, 7)) == ResolvedEpochs([EpochRun(5, 0)], [], 10)
    assert resolve(9, noted=(10, 7)) == ResolvedEpochs([], [], 0)


def test_where_one_of_two_is_wrong_the_log_ends_before_both() -> None:
    assert resolve(5, 9, 6, 7) == ResolvedEpochs([EpochRun(5, 0)], [], 10)
    assert resolve(5, 3) == ResolvedEpochs([], [], 0)


def test_an_epoch_before_two_others_is_the_wrong_one() -> None:
    assert resolve(4, 5, 3, 6) == ResolvedEpochs([EpochRun(4, 0), EpochRun(5, 10)], [], 20)
