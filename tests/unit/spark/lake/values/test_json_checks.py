from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.spark.lake.values.json_checks import MAX_LEVELS, explain, misfits, too_deep

FIELDS = [
    pa.field("n", pa.int64()),
    pa.field("f", pa.float64()),
    pa.field("t", pa.string()),
    pa.field("b", pa.bool_()),
    pa.field("l", pa.list_(pa.int64())),
    pa.field("o", pa.struct([("x", pa.int64())])),
    pa.field("d", pa.decimal128(10, 2)),
    pa.field("i", pa.int32()),
    pa.field("u", pa.uint8()),
    pa.field("at", pa.timestamp("us", "UTC")),
]


def deep(*values: bytes | None) -> list[int]:
    return [index for index, _ in too_deep(pa.array(values, pa.binary()))]


def lists(levels: int) -> bytes:
    return b'{"a": %s1%s}' % (b"[" * (levels - 1), b"]" * (levels - 1))


def test_values_are_refused_beyond_the_limit_only() -> None:
    objects = b'{"a":' * (MAX_LEVELS + 1)
    assert deep(lists(MAX_LEVELS), lists(MAX_LEVELS + 1), None, b"{}", objects) == [1, 4]


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    assert deep(b'{"a": [%s]}' % b",".join([b"[{}]"] * 500)) == []


def test_brackets_in_strings_do_not_count() -> None:
    assert deep(json.dumps({"a": '[{"\\[' * 500}).encode(), b'{"a": "%s' % (b"[" * 500)) == []
    assert deep(b'{"a": "\\"", "b": %s' % (b"[" * 500)) == [0]


def test_a_long_value_full_of_escapes_is_looked_at_once() -> None:
    assert deep(b'{"a": "' + rb"\"[" * 200_000) == []


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"",
        b"7",
        b"null",
        b"[]",
        b'{"n": "1"}',
        b'{"n": 1.5}',
        b'{"n": true}',
        b'{"n": 9223372036854775808}',
        b'{"n": %s}' % (b"9" * 5000),
        b'{"f": "1"}',
        b'{"f": false}',
        b'{"t": 1}',
        b'{"b": 1}',
        b'{"l": {}}',
        b'{"o": []}',
        b'{"t": "\xff"}',
    ],
)
def test_what_is_plainly_bad_is_reported(value: bytes) -> None:
    assert [index for index, reason in misfits(pa.array([b"{}", value]), FIELDS) if reason] == [1]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b'{"n": 1, "f": 1, "t": "x", "b": true, "l": [], "o": {}, "d": 1.5, "more": {}}',
        b'{"n": null, "f": NaN, "t": "a\tb", "d": "1.5"}',
        b'{"f": Inf}',
        b'{"f": %s}' % (b"9" * 200),
    ],
)
def test_what_may_fit_is_left_to_arrow(value: bytes | None) -> None:
    assert misfits(pa.array([value], pa.binary()), FIELDS) == []


@given(st.recursive(st.text('[]{}"\\', max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_flat_value_is_deep(content: object) -> None:
    assert deep(json.dumps({"a": content}).encode() * 20) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"i": 3.5}', "the field i: 3.5 is not a whole number"),
        (b'{"i": 3.0}', "the field i: 3.0 is not written as a whole number"),
        (b'{"i": 99999999999999999999}', "the field i: 99999999999999999999 is larger than int32 allows"),
        (b'{"i": 2147483648}', "the field i: 2147483648 is larger than int32 allows"),
        (b'{"i": -2147483649}', "the field i: -2147483649 is smaller than int32 allows"),
        (b'{"u": -1}', "the field u: -1 is smaller than uint8 allows"),
        (b'{"n": 1e400}', "the field n: Infinity is larger than int64 allows"),
        (b'{"n": %s}' % (b"9" * 5000), f"the field n: {'9' * 60}\u2026 is larger than int64 allows"),
        (b'{"n": "1"}', "the field n is text, its column is int64"),
        (b'{"l": [1, 2.5]}', "the field l[1]: 2.5 is not a whole number"),
        (b'{"o": {"x": 1e10}}', "the field o.x: 10000000000.0 is not written as a whole number"),
        (b'{"at": "yesterday"}', 'the field at: "yesterday" cannot be read as timestamp[us, tz=UTC]'),
        (b"7", "a number is no JSON object"),
        (b'{"n": 1}', None),
        (b"{} {}", "no JSON: Extra data: line 1 column 4 (char 3)"),
        (None, None),
    ],
)
def test_a_refused_value_is_explained(value: bytes | None, reason: str | None) -> None:
    assert explain(value, FIELDS) == reason
