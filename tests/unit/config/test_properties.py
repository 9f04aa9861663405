"""Java's .properties syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.config.properties import format_properties, parse_properties
from crabka.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! comment\n\n  \t\n", {}),
        ("a=b", {"a": "b"}),
        ("a = b \n", {"a": "b "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("  a\t:\t b", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("list=one,\\\n     two,\\\n     three", {"list": "one,two,three"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=x\\\n#not a comment", {"a": "x#not a comment"}),
        (r"key\ with\=signs=x", {"key with=signs": "x"}),
        (r"a=\t\n\r\f\q", {"a": "\t\n\r\fq"}),
        (r"a=\u00e9", {"a": "é"}),
        ("=value", {"": "value"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uzzzz"])
def test_broken_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="malformed"):
        parse_properties(text)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_written_properties_are_read_back(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values
