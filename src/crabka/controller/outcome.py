"""What a controller decision gives back: records to append and the answer to hand out once they are applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crabka.protocol.error_codes import ErrorCode, error_message

if TYPE_CHECKING:
    from crabka.errors import OperationError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """Records form one atomic batch; `result` may be shown only after they are durable."""

    result: T
    records: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """Success or Kafka's error for one item of a request."""

    error_code: ErrorCode = ErrorCode.none
    message: str | None = None

    @classmethod
    def of(cls, error: OperationError) -> ItemVerdict:
        """Return the verdict that tells a client of this error."""
        return cls(error.error_code, error.message or error_message(error.error_code))


ACCEPTED = ItemVerdict()
