from __future__ import annotations

from crabka.net import ConnectionLimits


def test_defaults_are_those_of_kafka_where_kafka_has_them() -> None:
    limits = ConnectionLimits()
    assert limits.max_frame_bytes == 104_857_600
    assert limits.max_idle_ms == 600_000
    assert limits.max_connections == 2**31 - 1


def test_writing_resumes_below_the_mark_that_stopped_it() -> None:
    limits = ConnectionLimits()
    assert limits.write_low_bytes < limits.write_high_bytes
