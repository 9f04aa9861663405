"""Requests to change the metadata and their outcome: the data types that the controller shares with its callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from crabka.protocol.error_codes import ErrorCode, error_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.config.alter import ConfigOp
    from crabka.errors import OperationError
    from crabka.metadata.configs import ConfigResource

T = TypeVar("T")

# A count that the request leaves to the controller.
USE_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic to create."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    # Partition index to replicas; not empty only if the client chose them itself.
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change of one resource's configs: operations, or (legacy) the full set of values that it shall have."""

    resource: ConfigResource
    ops: Sequence[ConfigOp] = ()
    replacement: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """Success or Kafka's error for one item of a request."""

    error_code: ErrorCode = ErrorCode.none
    message: str | None = None

    @classmethod
    def of(cls, error: OperationError) -> ItemVerdict:
        """Return the verdict that reports this error to a client."""
        return cls(error.error_code, error.message or error_message(error.error_code))


ACCEPTED: Final = ItemVerdict()


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a decision returns: records that form one atomic batch, and a result to show once they are durable."""

    result: T
    records: list[Any] = field(default_factory=list)
