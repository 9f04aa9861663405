"""Errors carry data and build their text from it."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from crabka.errors import CorruptDataError, CrabkaError, InvariantError, OperationError, StorageError, require


def test_an_operation_error_without_a_message_prints_its_code() -> None:
    assert str(OperationError(ErrorCode.offset_out_of_range)) == "offset_out_of_range"
    assert str(OperationError(ErrorCode.offset_out_of_range, "no such offset")) == "no such offset"


def test_an_operation_error_knows_whether_a_retry_makes_sense() -> None:
    assert OperationError(ErrorCode.not_leader_or_follower).retriable
    assert not OperationError(ErrorCode.message_too_large).retriable


def test_storage_and_corruption_errors_name_the_place() -> None:
    assert str(StorageError("data/a", "disk full")) == "log dir data/a: disk full"
    assert str(CorruptDataError("x.log", "bad CRC")) == "x.log: bad CRC"


def test_require_raises_only_when_the_fact_does_not_hold() -> None:
    require(True, "holds")
    with pytest.raises(InvariantError, match="end before start"):
        require(False, "end before start")


def test_every_error_is_a_crabka_error() -> None:
    assert issubclass(InvariantError, CrabkaError)
    assert isinstance(OperationError(ErrorCode.none), CrabkaError)
