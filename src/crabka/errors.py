"""The error tree, by cause and not by place.

CrabkaError
├── WireError          the peer broke the protocol: answer with an error or close its connection
├── OperationError     expected and returned to the client: has a Kafka error code
├── ConfigError        the operator's input is wrong: one clear line, exit code 2
├── StorageError       a disk failed under us: its log dir goes offline
├── CorruptDataError   bytes on our disk contradict their checksum or format
└── InvariantError     our own bug: log, dump and stop the node

Exceptions become Kafka's codes only at the edge of a handler.
"""

from __future__ import annotations

from crabka._kio import ErrorCode


def drop_tracebacks(error: BaseException) -> None:
    """Let go of the frames that an error and its causes passed, with all that was in their variables.

    For an error that was expected and is answered. A future that failed and is awaited through a variable refers to the
    error, the error to the frame and the frame to the future: a cycle that keeps the buffers of the request alive until
    the collector runs, which is rare.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__


class CrabkaError(Exception):
    """Root of everything that Crabka raises on purpose."""


class WireError(CrabkaError):
    """A peer sent bytes that the protocol does not allow."""


class OperationError(CrabkaError):
    """A request that cannot be carried out, with the code that Kafka gives for it."""

    def __init__(self, error_code: ErrorCode, message: str = "") -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message

    @property
    def retriable(self) -> bool:
        """True if a client may try the same request again."""
        return self.error_code.retriable

    def __str__(self) -> str:
        return self.message or self.error_code.name


class OffsetInRemoteTierError(OperationError):
    """A read below the local log start of a tiered log: the remote tier has the offset (KIP-405)."""

    def __init__(self, topic: str, partition: int, offset: int, local_log_start_offset: int) -> None:
        super().__init__(
            ErrorCode.offset_moved_to_tiered_storage,
            f"Offset {offset} of partition {topic}-{partition} is in the remote tier only; the local log starts at "
            f"{local_log_start_offset}.",
        )
        self.offset = offset
        self.local_log_start_offset = local_log_start_offset


class ConfigError(CrabkaError):
    """A setting, a file or an option given by the operator is wrong."""


class StorageError(CrabkaError):
    """The operating system refused or failed an operation in a log dir."""

    def __init__(self, log_dir: str, message: str) -> None:
        super().__init__(log_dir, message)
        self.log_dir = log_dir
        self.message = message

    def __str__(self) -> str:
        return f"log dir {self.log_dir}: {self.message}"


class CorruptDataError(CrabkaError):
    """Stored bytes do not have the form or the checksum that they claim."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(where, message)
        self.where = where
        self.message = message

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class InvariantError(CrabkaError):
    """A fact that must always hold does not: a bug in Crabka."""


def require(condition: bool, message: str) -> None:  # noqa: FBT001 - reads like assert
    """Raise InvariantError unless the condition holds; unlike assert it survives `python -O`."""
    if not condition:
        raise InvariantError(message)
