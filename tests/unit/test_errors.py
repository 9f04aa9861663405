from __future__ import annotations

import weakref

import pytest

from crabka.errors import (
    ConfigError,
    CorruptDataError,
    CrabkaError,
    InvariantError,
    OperationError,
    StorageError,
    WireError,
    drop_tracebacks,
    require,
)
from crabka.protocol.error_codes import ErrorCode


def test_operation_error_carries_kafkas_code_and_its_retriability() -> None:
    error = OperationError(ErrorCode.not_leader_or_follower, "moved")
    assert error.retriable
    assert str(error) == "moved"
    assert not OperationError(ErrorCode.invalid_topic_exception).retriable
    assert str(OperationError(ErrorCode.invalid_topic_exception)) == "invalid_topic_exception"


def test_storage_error_names_the_log_dir() -> None:
    error = StorageError("/data/1", "Input/output error")
    assert error.log_dir == "/data/1"
    assert str(error) == "log dir /data/1: Input/output error"


def test_corrupt_data_error_names_the_place() -> None:
    assert str(CorruptDataError("00.log@17", "wrong checksum")) == "00.log@17: wrong checksum"


def test_every_error_has_one_root() -> None:
    errors: list[type[Exception]] = [
        ConfigError,
        CorruptDataError,
        InvariantError,
        OperationError,
        StorageError,
        WireError,
    ]
    assert all(issubclass(error, CrabkaError) for error in errors)


def test_require_raises_only_when_the_fact_does_not_hold() -> None:
    require(True, "never said")
    with pytest.raises(InvariantError, match="offsets go back"):
        require(False, "offsets go back")


def test_dropping_the_tracebacks_frees_what_the_frames_held_and_keeps_the_messages() -> None:
    class Held:
        """Something large."""

    def inner() -> None:
        held = Held()
        refs.append(weakref.ref(held))
        raise ValueError("cause")

    def outer() -> None:
        try:
            inner()
        except ValueError as error:
            raise WireError("effect") from error

    refs: list[weakref.ref[Held]] = []
    with pytest.raises(WireError) as caught:
        outer()
    assert refs[0]() is not None
    drop_tracebacks(caught.value)
    assert refs[0]() is None
    assert str(caught.value) == "effect"
    assert str(caught.value.__cause__) == "cause"
