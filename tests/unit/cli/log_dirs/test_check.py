"""What `crabka log-dirs check` reads."""

from __future__ import annotations

import pytest

from crabka.cli.log_dirs.check import damage_rows, directory_problems, fetch_metrics, parse_samples, state_row
from crabka.errors import ConfigError
from crabka.testing import MemoryFileSystem
from tests.support.faults.rotting import flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import LOG_DIR, make_context, open_test_log

METRICS = """# HELP crabka_log_scrub_bytes_total Bytes checked
crabka_log_scrub_bytes_total 1234.0
crabka_log_scrub_pass_logs 5.0
crabka_log_scrub_pass_logs_done 3.0
crabka_log_scrub_pass_start_seconds 1.7e+09
crabka_log_scrub_last_pass_seconds -0.001
crabka_log_damaged_offsets{file="/d/t-0/0.log",first_offset="5",last_offset="7",partition="0",topic="t"} 3.0
"""


def test_the_state_of_a_broker_is_read_from_its_metrics() -> None:
    samples = list(parse_samples(METRICS))
    row = state_row(2, samples)
    assert (row["logs_checked"], row["logs"], row["bytes_checked"], row["damaged_ranges"]) == (3, 5, 1234, 1)
    assert (row["pass_started_timestamp"], row["last_full_pass_timestamp"]) == (1_700_000_000_000, None)
    assert damage_rows(2, samples) == [
        {"broker": 2, "topic": "t", "partition": 0, "first_offset": 5, "last_offset": 7, "file": "/d/t-0/0.log"}
    ]


def test_metrics_that_cannot_be_read_are_an_error_of_the_operator() -> None:
    with pytest.raises(ConfigError, match="cannot read the metrics"):
        fetch_metrics("127.0.0.1:1")


def test_problems_of_a_directory_are_rows() -> None:
    context = make_context()
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log)
    log.close(clean=True)
    assert list(directory_problems(context.fs, LOG_DIR)) == []
    flip(context.fs, log.healing.segment_of(0).log_path, 100)
    (row,) = directory_problems(context.fs, LOG_DIR)
    assert row["log"] == "orders-0"
    assert row["file"] == log.healing.segment_of(0).log_path
    assert "CRC" in str(row["reason"])


def test_a_directory_that_is_not_there_is_an_error_of_the_operator() -> None:
    with pytest.raises(ConfigError, match="/nowhere"):
        list(directory_problems(MemoryFileSystem(), "/nowhere"))
