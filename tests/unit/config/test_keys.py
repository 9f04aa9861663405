"""Parsing of single values, with the words in which Kafka refuses them."""

from __future__ import annotations

import sys

import pytest

from crabka.config.keys import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PASSWORD,
    REQUIRED,
    SHORT,
    STRING,
    ConfigKey,
    ConfigType,
    Value,
    boolean,
    index_keys,
    parse_list,
    to_text,
)
from crabka.config.validators import at_least
from crabka.errors import ConfigError


def _key(kind: ConfigType, default: Value = None) -> ConfigKey:
    return ConfigKey("some.key", kind, default, "A key.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, "true", True),
        (BOOLEAN, " FALSE ", False),
        (INT, "-2147483648", -(2**31)),
        (INT, "+7", 7),
        (INT, " 5 ", 5),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", LONG_MAX),
        (DOUBLE, "0.5", 0.5),
        (DOUBLE, "-1e3", -1000.0),
        (DOUBLE, ".5f", 0.5),
        (STRING, " text ", "text"),
        (LIST, "a, b ,a", ("a", "b")),
        (LIST, "", ()),
        (PASSWORD, " blank counts ", " blank counts "),
    ],
)
def test_text_is_parsed_as_kafka_parses_it(kind: ConfigType, text: str, value: Value) -> None:
    assert _key(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (BOOLEAN, "maybe", "Expected value to be either true or false"),
        (INT, "abc", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "2147483648", "Not a number of type INT"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (LONG, "1.5", "Not a number of type LONG"),
        (LONG, "٣", "Not a number of type LONG"),
        (DOUBLE, "x", "Not a number of type DOUBLE"),
        (DOUBLE, "NaN", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0", "Not a number of type DOUBLE"),
    ],
)
def test_bad_text_is_refused_in_one_line(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _key(kind).parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration some.key: {reason}"


def test_validator_runs_after_parsing() -> None:
    key = ConfigKey("some.key", INT, 5, "A key.", at_least(1))
    with pytest.raises(ConfigError, match=r"Invalid value 0 for configuration some\.key: Value must be at least 1"):
        key.parse("0")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (("a", "b"), "a,b"),
        (None, ""),
        (12, "12"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (1.25e-5, "1.25E-5"),
        (sys.float_info.max, "1.7976931348623157E308"),
    ],
)
def test_value_is_printed_as_java_prints_it(value: Value, text: str) -> None:
    assert to_text(value) == text


def test_default_is_shown_as_text_and_required_has_none() -> None:
    assert _key(LIST, ("a", "b")).default_text == "a,b"
    assert _key(STRING, "").default_text == ""
    assert _key(INT).default_text is None
    required = ConfigKey("some.key", INT, REQUIRED, "A key.")
    assert (required.default_text, required.default_value) == (None, None)
    assert repr(REQUIRED) == "REQUIRED"


def test_only_passwords_are_sensitive_and_only_scoped_keys_are_dynamic() -> None:
    assert _key(PASSWORD).sensitive
    assert not _key(STRING).sensitive
    assert boolean("some.key", "A key.", default=True, scope=CLUSTER_WIDE).dynamic
    assert not boolean("some.key", "A key.", default=True).dynamic


def test_list_drops_blanks_around_commas_but_keeps_empty_members() -> None:
    assert parse_list(" a ,, b ") == ("a", "", "b")


def test_two_declarations_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"some\.key is declared twice"):
        index_keys((_key(INT),), (_key(LONG),))
