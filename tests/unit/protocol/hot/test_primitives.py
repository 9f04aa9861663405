from __future__ import annotations

import pytest

from crabka.protocol.hot.primitives import NodeEndpoint, compact_string, legacy_string, node_endpoints_tag, uvarint


@pytest.mark.parametrize(
    ("value", "raw"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2"), (2**31, b"\x80\x80\x80\x80\x08")]
)
def test_uvarints(value: int, raw: bytes) -> None:
    assert uvarint(value) == raw


def test_strings_count_bytes_and_not_characters() -> None:
    assert compact_string("é") == b"\3\xc3\xa9"
    assert legacy_string("é") == b"\0\2\xc3\xa9"


def test_null_strings() -> None:
    assert compact_string(None) == b"\0"
    assert legacy_string(None) == b"\xff\xff"


def test_no_endpoints_are_no_tagged_field() -> None:
    assert node_endpoints_tag(()) == b"\0"


def test_endpoints_are_tagged_field_0() -> None:
    tag = node_endpoints_tag([NodeEndpoint(1, "h", 9092)])
    assert tag == b"\1\0\x0d" + b"\2" + b"\0\0\0\1" + b"\2h" + b"\0\0\x23\x84" + b"\0" + b"\0"
