from __future__ import annotations

from crabka.ids import TopicPartition
from crabka.spark.errors import DataLossError
from crabka.spark.plan.history.divergence import Divergence, LogCutError

T0 = TopicPartition("t", 0)


def divergence(*, partition: int = 0, agreed: int = 750, log_start: int = 0) -> Divergence:
    return Divergence(
        partition=TopicPartition("t", partition),
        position=3000,
        agreed_offset=agreed,
        differs_offset=1000,
        log_start_offset=log_start,
    )


def test_the_error_says_where_the_histories_differ() -> None:
    error = LogCutError([divergence()], "; do this")
    assert isinstance(error, DataLossError)
    assert str(error) == (
        "the log of t-0 was cut: it no longer has what was read before offset 3000; the histories agree "
        "before offset 750 and differ from offset 1000 on at the latest; do this; set failOnDataLoss to false to read "
        "what there is"
    )
    assert "are not known to agree anywhere" in str(LogCutError([divergence(agreed=0)]))


def test_many_partitions_are_counted() -> None:
    error = LogCutError([divergence(partition=number) for number in range(5)])
    assert error.loss.count("was cut") == 3
    assert "and so were 2 more partitions" in error.loss
    assert len(error.divergences) == 5


def test_what_the_log_cannot_give_again_is_not_rewound() -> None:
    assert divergence().rewind_offset == 750
    assert divergence(log_start=900).rewind_offset == 900
    assert divergence(log_start=4000).rewind_offset == 3000
