"""Findings about tables."""

from __future__ import annotations

from crabka.cli.doctor.checks.tables import MANY_FILES, OLD_MS, SMALL_BYTES, TableFacts, find_tables
from tests.support.doctor.findings import line, only, texts

SOUND = TableFacts("orders", "orders", "s3://lake", 10, 1_000, 0, 3, 3 * SMALL_BYTES)


def test_tables_that_follow_are_fine() -> None:
    assert texts(find_tables([SOUND, SOUND._replace(lag=None)])) == [("ok", "2 tables, 10 records behind")]


def test_a_table_without_syncs_is_a_warning() -> None:
    found = only(find_tables([SOUND._replace(age_ms=3 * OLD_MS)]))
    assert found.reason == "Table orders is 10 records behind orders; the last commit is 3d 0h old."
    assert (found.severity.value, line(found)) == (
        "warning",
        "crabka lake sync orders --to s3://lake --table orders",
    )
    assert only(find_tables([SOUND._replace(age_ms=3 * OLD_MS, lag=0)])).severity.value == "ok"


def test_dead_letters_are_a_warning() -> None:
    found = only(find_tables([SOUND._replace(dead_rows=4)]))
    assert found.reason == "Table orders lacks 4 records whose values did not fit; they are dead letters."
    assert line(found) == "crabka lake status orders --to s3://lake"


def test_many_small_files_are_a_hint() -> None:
    found = only(find_tables([SOUND._replace(file_count=MANY_FILES, size_bytes=MANY_FILES * 1024)]))
    assert found.reason == "Table orders has 100 files of 1.0 KiB on average, which is slow to read."
    assert (found.severity.value, line(found)) == ("hint", "crabka lake compact orders --to s3://lake")


def test_a_table_that_cannot_be_read_is_an_error() -> None:
    found = only(find_tables([SOUND._replace(failure="There is no delta table orders.")]))
    assert (found.severity.value, found.reason) == (
        "error",
        "Table orders cannot be read: There is no delta table orders.",
    )
