"""Checks that settings share, with the words in which Kafka refuses a value."""

from __future__ import annotations

import pytest

from crabka.config.keys import Validator, Value
from crabka.config.validators import (
    ADDRESSES,
    GZIP_LEVEL,
    LZ4_LEVEL,
    THROTTLED_REPLICAS,
    VOTERS,
    Between,
    ListOf,
    Matches,
    NotEmpty,
    OneOf,
    at_least,
)
from crabka.errors import ConfigError

_FORMAT = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


@pytest.mark.parametrize(
    ("validator", "value", "message"),
    [
        (at_least(1), 0, "Invalid value 0 for configuration k: Value must be at least 1"),
        (LZ4_LEVEL, 77, "Invalid value 77 for configuration k: Value must be no more than 17"),
        (Between(0, 1), 2.0, "Invalid value 2.0 for configuration k: Value must be no more than 1"),
        (GZIP_LEVEL, 0, "Invalid value 0 for configuration k: Value must be between 1 and 9 or equal to -1"),
        (OneOf(("a", "b")), "c", "Invalid value c for configuration k: String must be one of: a, b"),
        (OneOf(("a",)), "A", "Invalid value A for configuration k: String must be one of: a"),
        (
            OneOf(("A",), ignore_case=True),
            "c",
            "Invalid value c for configuration k: String must be one of (case insensitive): A",
        ),
        (ListOf(("a", "b")), ("a", "c"), "Invalid value c for configuration k: String must be one of: a, b"),
        (ListOf(), ("a", ""), "Configuration 'k' values must not be empty."),
        (
            ListOf(may_be_empty=False),
            (),
            "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        ),
        (ListOf(("a",), may_be_empty=False), (), "Configuration 'k' must not be empty. Valid values include: [a]"),
        (
            ADDRESSES,
            ("localhost",),
            'Invalid value [localhost] for configuration k: Each entry should be in the form "{host}:{port}"',
        ),
        (
            VOTERS,
            ("localhost:1",),
            'Invalid value [localhost:1] for configuration k: Each entry should be in the form "{id}@{host}:{port}"',
        ),
        (NotEmpty(), "", "Invalid value  for configuration k: String must be non-empty"),
        (
            THROTTLED_REPLICAS,
            ("1:2", "3"),
            (
                "Invalid value [1:2, 3] for configuration k: k must be the literal '*' or a list of replicas in the "
                f"following format: {_FORMAT}"
            ),
        ),
    ],
)
def test_refusal_is_worded_as_kafka_words_it(validator: Validator, value: Value, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validator.check("k", value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        (at_least(1), 1),
        (at_least(1), None),
        (Between(0, 1), 1.0),
        (GZIP_LEVEL, -1),
        (GZIP_LEVEL, 9),
        (OneOf(("DISABLED",), ignore_case=True), "disabled"),
        (OneOf(("DISABLED",), ignore_case=True), None),
        (ListOf(("a", "b")), ()),
        (ListOf(("a", "b")), ("b",)),
        (ListOf(), None),
        (NotEmpty(), None),
        (THROTTLED_REPLICAS, ("*",)),
        (THROTTLED_REPLICAS, ("0:1", "12:34")),
        (THROTTLED_REPLICAS, ()),
        (ADDRESSES, ("localhost:1", "[::1]:2")),
        (ADDRESSES, ()),
        (VOTERS, ("1@localhost:1",)),
    ],
)
def test_allowed_values_pass(validator: Validator, value: Value) -> None:
    validator.check("k", value)


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (at_least(1), "[1,...]"),
        (Between(1, 17), "[1,...,17]"),
        (Between(high=3), "[...,3]"),
        (OneOf(("a", "b")), "[a, b]"),
        (ListOf(("a",)), "of [a]"),
        (ListOf(), "of any"),
        (NotEmpty(), "non-empty"),
        (Matches(bool, "truth", "no"), "truth"),
    ],
)
def test_rule_is_described_for_the_reference_page(validator: Validator, text: str) -> None:
    assert validator.describe() == text
