from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.spark.options.names import OptionValues


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        (" 90s ", 90_000),
        ("500", 500),
        ("7ms", 7),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
        ("2000us", 2),
        ("3min", 180_000),
        ("1999us", 1),
        ("-1999us", -1),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807d", 2**63 - 1),
    ],
)
def test_times_are_those_of_spark(text: str, milliseconds: int) -> None:
    assert OptionValues({"x": text}).duration_ms("x", 0) == milliseconds


@pytest.mark.parametrize(
    "text", ["soon", "5 weeks", "1.5s", "m", "90 s", "", " ", "1_0s", "9223372036854775808", "1" * 5_000]
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="x is a time such as 15m"):
        OptionValues({"x": text}).duration_ms("x", 0)


def test_what_is_not_given_has_a_default() -> None:
    values = OptionValues({})
    assert values.text("x") is None
    assert values.number("x") is None
    assert values.positive("x") is None
    assert values.choice("x", ("a",)) is None
    assert values.flag("x", default=True)
    assert values.not_negative("x", 3) == 3
    assert values.duration_ms("x", 4) == 4
    assert "x" not in values


def test_numbers_are_checked() -> None:
    values = OptionValues({"a": "-1", "b": "0", "c": "x", "d": " 12 "})
    assert values.number("a") == -1
    assert values.not_negative("b", 9) == 0
    assert values.positive("d") == 12
    for name, message in (("a", "must be positive"), ("b", "must be positive"), ("c", "whole number")):
        with pytest.raises(ConfigError, match=f"{name} .*{message}"):
            values.positive(name)
    with pytest.raises(ConfigError, match="must not be negative"):
        values.not_negative("a", 0)


@pytest.mark.parametrize("text", ["1_000", "", " ", "1.0", "0x1", "٣", "+", "1 0", "--1"])
def test_numbers_are_digits_only(text: str) -> None:
    with pytest.raises(ConfigError, match="x is a whole number, not "):
        OptionValues({"x": text}).number("x")


def test_numbers_fit_into_those_of_java() -> None:
    values = OptionValues({"low": str(-(2**63)), "high": "+9223372036854775807", "over": str(2**63), "int": str(2**31)})
    assert (values.number("low"), values.number("high")) == (-(2**63), 2**63 - 1)
    assert values.positive("int") == 2**31
    with pytest.raises(ConfigError, match=r"^over is a whole number of 64 bits, and 9223372036854775808 is too large"):
        values.number("over")
    with pytest.raises(ConfigError, match=r"^int is a whole number of 32 bits"):
        values.positive("int", bits=32)
    with pytest.raises(ConfigError, match=r"^int is a whole number of 32 bits"):
        values.not_negative("int", 0, bits=32)
    with pytest.raises(ConfigError, match=r"64 bits, and 1+… is too large"):
        OptionValues({"x": "1" * 5_000}).number("x")


def test_an_empty_text_is_no_value() -> None:
    values = OptionValues({"x": " "})
    assert values.text("x") is None
    with pytest.raises(ConfigError, match="x is true or false, not an empty text"):
        values.flag("x", default=True)
    with pytest.raises(ConfigError, match="x is one of a, not an empty text"):
        values.choice("x", ("a",))


def test_choices_and_flags_ignore_case() -> None:
    values = OptionValues({"a": "AUTO", "b": "TRUE", "c": "1"})
    assert values.choice("a", ("auto", "tier")) == "auto"
    assert values.flag("b", default=False)
    with pytest.raises(ConfigError, match="c is true or false, not 1"):
        values.flag("c", default=False)
    with pytest.raises(ConfigError, match="a is one of x, y, not AUTO"):
        values.choice("a", ("x", "y"))
