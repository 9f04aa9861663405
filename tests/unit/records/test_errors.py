"""Errors of batches carry Kafka's codes."""

from __future__ import annotations

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError


def test_corrupt_batch_is_an_operation_error_with_a_code() -> None:
    error = CorruptBatchError("what happened")
    assert isinstance(error, OperationError)
    assert error.error_code is ErrorCode.corrupt_message
    assert str(error) == "what happened"


def test_unknown_codec_has_its_own_code() -> None:
    error = UnsupportedCompressionError(6)
    assert error.error_code is ErrorCode.unsupported_compression_type
    assert "6" in str(error)
