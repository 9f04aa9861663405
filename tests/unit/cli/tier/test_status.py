"""What is not in the tier yet. Rows of live partitions are tested with the command."""

from __future__ import annotations

from crabka.cli.output import column_of
from crabka.cli.tier.status import STATUS_COLUMNS, count_beyond, lag
from crabka.testing.remote_samples import sample_segment


def lag_of(
    start: int | None, local: int | None, tiered: int | None, end: int | None, local_bytes: int | None = 1000
) -> tuple[int | None, int | None, int | None]:
    found = lag({"start": start, "local_start": local, "tiered": tiered, "high_watermark": end}, local_bytes, 100)
    assert set(found) < {column_of(each).name for each in STATUS_COLUMNS}
    return found["lag_offsets"], found["lag_bytes"], found["lag_segments"]


def test_nothing_waits_when_all_is_tiered() -> None:
    assert lag_of(0, 100, 99, 100) == (0, 0, 0)
    assert lag_of(0, 50, 99, 100) == (0, 0, 0)


def test_what_waits_is_a_share_of_what_is_local() -> None:
    assert lag_of(0, 50, 74, 100) == (25, 500, 5)


def test_all_waits_before_the_first_copy() -> None:
    assert lag_of(0, 0, None, 100) == (100, 1000, 10)
    assert lag_of(20, 20, None, 100) == (80, 1000, 10)


def test_records_deleted_before_they_were_copied_do_not_wait() -> None:
    assert lag_of(90, 90, 50, 100) == (10, 1000, 10)


def test_what_brokers_do_not_report_is_unknown() -> None:
    assert lag_of(None, None, None, None) == (None, None, None)
    assert lag_of(0, None, 49, 100) == (50, 500, 5)
    assert lag_of(0, 0, 49, 100, None) == (50, None, None)
    assert lag_of(0, 0, 120, 100) == (0, None, None), "the high watermark was asked for before"
    assert lag({"start": 0, "local_start": 0, "tiered": None, "high_watermark": 5}, 10, 0)["lag_segments"] is None


def test_segments_beyond_the_log_are_counted() -> None:
    segments = [sample_segment(1, (0, 99)), sample_segment(2, (100, 199))]
    assert [count_beyond(segments, end) for end in (200, 199, 0, None)] == [0, 1, 2, None]
