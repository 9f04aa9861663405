"""Durations and sizes as people write and read them."""

from __future__ import annotations

import pytest

from crabka.cli.units import (
    config_value,
    format_duration,
    format_size,
    parse_config_settings,
    parse_duration_ms,
    parse_size_bytes,
)
from crabka.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("0", 0), ("500ms", 500), ("30s", 30_000), ("1.5m", 90_000), ("12h", 43_200_000), ("7d", 604_800_000)],
)
def test_a_duration_has_a_unit(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


def test_options_that_took_plain_numbers_still_do() -> None:
    assert [parse_duration_ms(text, bare="m") for text in ("10", "0.05", "10s")] == [600_000, 3_000, 10_000]
    assert [parse_size_bytes(text, bare="mib") for text in ("1", "0.5", "1KB")] == [1 << 20, 1 << 19, 1000]


@pytest.mark.parametrize("text", ["60", "", "d", "7 days", "-1s", "1.5ms", "1e3s", "٣s and"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration: write a number with its unit, such as 500ms"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17", 17), ("1B", 1), ("1kB", 1000), ("1GB", 10**9), ("64MiB", 64 << 20), ("1.5KiB", 1536), ("1 tib", 1 << 40)],
)
def test_a_size_is_in_powers_of_1000_or_of_1024(text: str, expected: int) -> None:
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "1M", "GB", "-1", "1.5", "0.3B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no size: write bytes or a number with its unit, such as 1048576"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "-1", "-1"),
        ("log.retention.hours", "7d", "168"),
        ("offsets.retention.minutes", "1h", "60"),
        ("leader.imbalance.check.interval.seconds", "5m", "300"),
        ("internal.metadata.delete.delay.millis", "1s", "1000"),
        ("segment.bytes", "64MiB", str(64 << 20)),
        ("retention.bytes", "1GB", str(10**9)),
        ("log.cleaner.io.max.bytes.per.second", "10MB", str(10**7)),
        ("leader.replication.throttled.rate", "1MiB", str(1 << 20)),
        ("producer_byte_rate", "1MB", str(10**6)),
        # The broker refuses what is not a value of the setting, and settings without a unit stay as they are.
        ("retention.ms", "64MiB", "64MiB"),
        ("cleanup.policy", "compact", "compact"),
        ("min.insync.replicas", "2d", "2d"),
    ],
)
def test_the_value_of_a_setting_may_have_any_unit_of_its_kind(name: str, text: str, expected: str) -> None:
    assert config_value(name, text) == expected


def test_a_value_that_the_unit_of_its_setting_cannot_say_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.hours=90m is not a whole number of hours"):
        parse_config_settings(["log.retention.hours=90m"], "--set")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 60, "3072.0 PiB"),
    ],
)
def test_sizes_are_readable(count: int | None, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, ""),
        (-5_000, "0s"),
        (12, "12ms"),
        (59_000, "59s"),
        (60_000, "1m 0s"),
        (3_600_000, "1h 0m"),
        (90_061_000, "1d 1h"),
    ],
)
def test_durations_are_in_two_units(duration_ms: int | None, text: str) -> None:
    assert format_duration(duration_ms) == text
