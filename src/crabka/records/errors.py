"""The error of a batch whose bytes do not have the form they claim.

It is an OperationError, so that a handler answers with its code and a reader of our own disk can turn it into
a CorruptDataError with the place it knows.
"""

from __future__ import annotations

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode


class CorruptBatchError(OperationError):
    """A record batch that cannot be read: wrong checksum, wrong lengths, broken compression."""

    def __init__(self, message: str, error_code: ErrorCode = ErrorCode.corrupt_message) -> None:
        super().__init__(error_code, message)


class UnsupportedCompressionError(CorruptBatchError):
    """The attributes name a codec that Kafka does not define."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"Unknown compression type id: {codec}", ErrorCode.unsupported_compression_type)
        self.codec = codec
