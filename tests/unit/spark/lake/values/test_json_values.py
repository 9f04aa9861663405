from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.spark.lake.values import json_values
from crabka.spark.lake.values.json_values import JsonValues

FIELDS = (pa.field("id", pa.int64()), pa.field("name", pa.string()))


def decode(decoder: JsonValues, *values: bytes | None) -> tuple[list[dict[str, Any]], dict[int, str]]:
    decoded = decoder.decode(pa.array(values, pa.binary()))
    names = [field.name for field in decoded.fields]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(c.to_pylist() for c in decoded.columns), strict=True)]
    return rows, dict(decoded.bad)


def test_known_fields_become_columns_and_others_are_left_out() -> None:
    rows, bad = decode(JsonValues(FIELDS), b'{"id": 1, "name": "a", "more": [1]}', b'\n{ "name":\n"b" }\n', b"{}")
    assert rows == [{"id": 1, "name": "a"}, {"id": None, "name": "b"}, {"id": None, "name": None}]
    assert bad == {}


def test_a_null_value_is_a_row_without_fields() -> None:
    assert decode(JsonValues(FIELDS), None, b'{"id": 1}') == ([{"id": None, "name": None}, {"id": 1, "name": None}], {})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"  ",
        b"\n",
        b"nonsense",
        b"{",
        b'{"id": 1',
        b'{"id": 1}}',
        b'{"id": 1}{"id": 2}',
        b'{"id": 1}\n{"id": 2}',
        b'{}}\n{"n":1,"v":{}',
        b"[]",
        b'"text"',
        b"7",
        b"null",
        b"true",
        b'{"id": "text"}',
        b'{"id": 1e400}',
        b'{"id": 123456789012345678901234567890}',
        b'{"name": "\xff"}',
        b'{"name": {"deep": 1}}',
        b'{"id": 1},',
        b'{"id": 1}, "w": 2',
        b'1, "v": {}',
        b'{"id": 1}, "n": 0',
        b'{}],"w":[{}',
        b'{},{}],"w":[{}',
        b'{},{"id": 1}',
    ],
)
def test_a_bad_value_is_reported_and_shifts_no_other(value: bytes) -> None:
    for decoder in (JsonValues(FIELDS), JsonValues(FIELDS, infers=True)):
        good = [b'{"id": %d, "name": "x"}' % number for number in range(5)]
        rows, bad = decode(decoder, *good[:2], value, *good[2:])
        assert [row["id"] for row in rows] == [0, 1, 2, 3, 4]
        assert list(bad) == [2]
        assert bad[2]
        assert "Column(" not in bad[2]


def test_many_bad_values_are_all_found() -> None:
    values = [b"{broken" if number % 3 == 0 else b'{"id": %d}' % number for number in range(100)]
    rows, bad = decode(JsonValues(FIELDS), *values)
    assert sorted(bad) == list(range(0, 100, 3))
    assert [row["id"] for row in rows] == [number for number in range(100) if number % 3]


def test_no_values_are_no_rows() -> None:
    assert decode(JsonValues(FIELDS)) == ([], {})


def new_fields(decoder: JsonValues, *values: bytes) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in decoder.decode(pa.array(values, pa.binary())).new_fields}


def test_fields_that_are_not_known_are_found_with_their_types() -> None:
    found = new_fields(
        JsonValues((), infers=True),
        b'{"i": 1, "f": 1.5, "s": "x", "b": true, "n": null, "e": [], "o": {}}',
        b'{"l": [{"x": 1}], "o": {"y": null, "z": "t"}}',
    )
    assert found == {
        "i": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "l": pa.list_(pa.struct([("x", pa.int64())])),
        "o": pa.struct([("z", pa.string())]),
    }


def test_a_text_that_looks_like_a_time_stays_text() -> None:
    assert new_fields(JsonValues((), infers=True), b'{"t": "2026-01-01 00:00:00"}') == {"t": pa.string()}
    decoder = JsonValues((pa.field("t", pa.string()),), infers=True)
    assert decode(decoder, b'{"t": "2026-01-01"}', b'{"t": "soon"}')[0] == [{"t": "2026-01-01"}, {"t": "soon"}]


def test_of_types_that_exclude_each_other_the_first_is_found() -> None:
    decoder = JsonValues((), infers=True)
    assert new_fields(decoder, b'{"a": 1}', b'{"a": "x"}', b'{"b": 1}') == {"a": pa.int64(), "b": pa.int64()}


def test_nothing_is_looked_for_unless_asked() -> None:
    assert new_fields(JsonValues(FIELDS), b'{"more": 1}') == {}


def test_known_structs_grow() -> None:
    known = JsonValues((pa.field("o", pa.struct([("x", pa.int64())])),), infers=True)
    assert new_fields(known, b'{"o": {"x": 1, "y": "a"}}') == {"o": pa.struct([("x", pa.int64()), ("y", pa.string())])}
    grown = known.with_fields([pa.field("o", pa.struct([("y", pa.string())]))])
    assert decode(grown, b'{"o": {"y": "a"}}', b"{}")[0] == [{"o": {"x": None, "y": "a"}}, {"o": None}]
    assert new_fields(grown, b'{"o": {"x": 1, "y": "a"}}') == {}


@pytest.mark.parametrize("infers", [False, True])
@pytest.mark.parametrize("levels", [32, 300, 2000, 20_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_value_that_is_nested_too_deeply_is_bad(opening: bytes, levels: int, infers: bool) -> None:
    closing = b"]" if opening == b"[" else b"}"
    value = b'{"id": 7, "a": %s1%s}' % (opening * levels, closing * levels)
    rows, bad = decode(JsonValues(FIELDS, infers=infers), b'{"id": 1}', value, b'{"id": 2}', b"{")
    assert [row["id"] for row in rows] == [1, 2]
    assert bad[1] == "nested deeper than 32 levels"
    assert sorted(bad) == [1, 3]


@pytest.mark.parametrize("name", ["kafka_offset", "Kafka_Key", "kafka_date", "ID", "Name", "a\0b"])
def test_rows_with_fields_that_cannot_become_columns_are_bad(name: str) -> None:
    strange = json.dumps({"id": 3, name: 5}).encode()
    rows, bad = decode(JsonValues(FIELDS, infers=True), b'{"id": 1}', strange, b'{"id": 2}', strange)
    assert [row["id"] for row in rows] == [1, 2]
    assert sorted(bad) == [1, 3]
    assert "field" in bad[1]
    assert new_fields(JsonValues(FIELDS, infers=True), strange) == {}
    assert decode(JsonValues(FIELDS), strange) == ([{"id": 3, "name": None}], {})


def test_names_that_look_like_paths_are_names() -> None:
    strange = pa.struct([(".x", pa.int64()), ("[0]", pa.int64())])
    value = b'{"s": {"more": 1, ".x": 1, "[0]": 2}}'
    assert decode(JsonValues((pa.field("s", strange),)), value)[0] == [{"s": {".x": 1, "[0]": 2}}]


def test_dates_are_text_as_iso_8601_has_it() -> None:
    fields = (pa.field("d", pa.date32()), pa.field("l", pa.list_(pa.struct([("d", pa.date32())]))))
    for infers in (False, True):
        rows, bad = decode(
            JsonValues(fields, infers=infers),
            b'{"d": "2026-02-03", "l": [{"d": "0001-01-01"}]}',
            b'{"d": 5000000}',
            b'{"d": "yesterday"}',
            b'{"d": "0000-12-31"}',
            b'{"l": [{"d": "0000-12-31"}]}',
            b'{"d": null}',
        )
        assert rows == [{"d": date(2026, 2, 3), "l": [{"d": date(1, 1, 1)}]}, {"d": None, "l": None}]
        assert sorted(bad) == [1, 2, 3, 4]


def test_many_bad_rows_do_not_take_a_parse_each(monkeypatch: pytest.MonkeyPatch) -> None:
    parses = 0
    parse = json_values._parse

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal parses
        parses += 1
        return parse(*args, **kwargs)

    monkeypatch.setattr(json_values, "_parse", counting)
    values = [(b'{"id": "x"}', b"{broken", b'{"id": 1}')[number % 3] for number in range(900)]
    rows, bad = decode(JsonValues(FIELDS), *values)
    assert (len(rows), len(bad), parses) == (300, 600, 2)
    parses = 0
    decode(JsonValues((), infers=True), *(b'{"a": 1}' if number % 2 else b'{"a": "x"}' for number in range(900)))
    assert parses < 50


JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "n", "v"]), inner, max_size=3)
    ),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())


@given(st.lists(JSON_TEXTS | st.binary(max_size=8) | st.none() | JSON_TEXTS.map(lambda text: text[:-1]), max_size=20))
def test_every_row_is_good_or_bad_and_what_is_good_is_right(values: list[bytes | None]) -> None:
    rows, bad = decode(JsonValues(FIELDS), *values)
    assert len(rows) + len(bad) == len(values)
    good = [value for index, value in enumerate(values) if index not in bad]
    for row, value in zip(rows, good, strict=True):
        parsed = {} if value is None else json.loads(value)
        assert row == {"id": parsed.get("id"), "name": parsed.get("name")}


def test_dead_letters_say_what_is_wrong_with_numbers() -> None:
    decoder = JsonValues((pa.field("id", pa.int32()), pa.field("of", pa.struct([("n", pa.int32())]))))
    numbers = [b'{"id": 1}', b'{"id": 3.5}', b'{"id": 99999999999999999999}']
    rows, bad = decode(decoder, *numbers, b'{"of": {"n": 3.5}}', b'{"of": {"n": 1e10}}')
    assert len(rows) == 1
    assert bad == {
        1: "the field id: 3.5 is not a whole number",
        2: "the field id: 99999999999999999999 is larger than int32 allows",
        3: "the field of.n: 3.5 is not a whole number",
        4: "the field of.n: 10000000000.0 is larger than int32 allows",
    }
