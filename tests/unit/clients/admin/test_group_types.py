"""Assignments that members of classic groups carry."""

from __future__ import annotations

import struct

import pytest

from crabka.clients.admin.group_types import decode_assignment_untrusted
from crabka.ids import TopicPartition


def assignment(version: int = 3, tail: bytes = b"") -> bytes:
    topics = b"\x00\x01b" + struct.pack(">iii", 2, 1, 0) + b"\x00\x01a" + struct.pack(">ii", 1, 7)
    return struct.pack(">hi", version, 2) + topics + struct.pack(">i", -1) + tail


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_partitions_are_read_from_every_version(version: int) -> None:
    expected = (TopicPartition("a", 7), TopicPartition("b", 0), TopicPartition("b", 1))
    assert decode_assignment_untrusted(assignment(version, b"later")) == expected


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment_untrusted(b"") == ()


@pytest.mark.parametrize("data", [b"\x00", b"{}{}{}", assignment()[:12], struct.pack(">hi", 0, 2**31 - 1)])
def test_other_bytes_are_no_assignment(data: bytes) -> None:
    assert decode_assignment_untrusted(data) is None
