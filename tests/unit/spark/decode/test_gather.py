"""Copies into Arrow's buffers, and their refusal to read or write outside."""

from __future__ import annotations

import numpy as np
import pytest

from crabka.spark.decode.gather import copy_fields, mark_valid, measure


def numbers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_offsets_skip_nulls() -> None:
    offsets = np.full(6, 99, np.int32)
    assert measure(numbers(3, -1, 0, 5, -7), offsets) == (8, 2)
    assert offsets.tolist() == [0, 3, 3, 3, 8, 8]


def test_fields_are_copied_from_anywhere() -> None:
    data = np.frombuffer(b"..two.three.one", np.uint8)
    output = np.zeros(11, np.uint8)
    assert copy_fields(data, numbers(12, 2, 0, 6), np.array([0, 3, 6, 6, 11], np.int32), output)
    assert output.tobytes() == b"onetwothree"


@pytest.mark.parametrize(
    ("position", "size"), [(-1, 1), (10, 1), (8, 3), (1 << 62, 5), (-(1 << 63), 5), (0, 12), (3, -5)]
)
def test_nothing_is_copied_from_or_to_the_outside(position: int, size: int) -> None:
    output = np.zeros(11, np.uint8)
    copied = copy_fields(np.ones(10, np.uint8), numbers(position), np.array([0, size], np.int32), output)
    assert not output.any()
    assert copied is (size <= 0)


def test_valid_fields_get_a_bit() -> None:
    bitmap = np.zeros(2, np.uint8)
    mark_valid(numbers(0, -1, 5, -1, -1, 1, 1, -1, 7, -1), bitmap)
    assert bitmap.tolist() == [0b01100101, 0b01]
