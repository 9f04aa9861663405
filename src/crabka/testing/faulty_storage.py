"""A remote tier that fails on purpose, in front of any other.

Owns rules and their counters. A rule matches operations by name, which are the method names of RemoteStorageManager,
and says what happens before, instead of and after the effect; the first rule that fires decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from crabka.ports import Buffer
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.storage_manager import RemoteStorageManager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crabka.remote.segments import (
        CustomMetadata,
        IndexType,
        LogSegmentData,
        RemoteLogSegmentId,
        RemoteLogSegmentMetadata,
    )

STORAGE_OPERATIONS = (
    "copy_log_segment_data",
    "fetch_log_segment",
    "stream_log_segment",
    "fetch_index",
    "delete_log_segment_data",
)


@dataclass(slots=True, kw_only=True)
class StorageFault:
    """When and how an operation of a storage fails. At least one effect is required."""

    operation: str = "*"
    wants: Callable[[RemoteLogSegmentMetadata], bool] | None = None  # None = every segment
    skip: int = 0  # this many matching operations pass first
    times: int | None = None  # then it fires so often; None = always
    # Effects, in this order.
    before: Callable[[str, RemoteLogSegmentMetadata], None] | None = None  # wait, count, crash
    error: Exception | None = None  # raised without any effect on the tier
    lost_source: str | None = None  # copy: this field of LogSegmentData leads to no file
    partial: bool = False  # copy: what is stored cannot be fetched, only deleted; then `error_after`
    keep_bytes: int | None = None  # fetches and streams: so many bytes are returned, then `error_after`
    after: Callable[[str, RemoteLogSegmentMetadata], None] | None = None  # as `before`, when it is done
    error_after: Exception | None = None  # raised after the effect
    matched_count: int = field(default=0, init=False)
    fired_count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.operation != "*" and self.operation not in STORAGE_OPERATIONS:
            raise ValueError(f"{self.operation!r} is no operation of a storage")
        effects = (self.before, self.error, self.lost_source, self.keep_bytes, self.after, self.error_after)
        if all(effect is None for effect in effects) and not self.partial:
            raise ValueError("a fault needs an effect")

    def fires(self, operation: str, metadata: RemoteLogSegmentMetadata) -> bool:
        """Count an operation and return whether it is to fail."""
        if self.operation not in ("*", operation) or not (self.wants is None or self.wants(metadata)):
            return False
        self.matched_count += 1
        if self.matched_count <= self.skip or (self.times is not None and self.fired_count >= self.times):
            return False
        self.fired_count += 1
        return True


def _nothing(_operation: str, _metadata: RemoteLogSegmentMetadata) -> None:
    """Let an operation pass."""


_NO_FAULT = StorageFault(before=_nothing)


class FaultyStorageManager(RemoteStorageManager):
    """Calls `inner` unless a rule fires. Rules may be added and removed at any time. Thread-safe."""

    def __init__(self, inner: RemoteStorageManager, faults: Sequence[StorageFault] = ()) -> None:
        self.inner = inner
        self.faults = list(faults)
        self.calls: list[tuple[str, RemoteLogSegmentId]] = []
        self._lock = Lock()
        self._partial: set[RemoteLogSegmentId] = set()

    def add(self, fault: StorageFault) -> StorageFault:
        """Add a rule and return it, for its counters and for `remove`."""
        with self._lock:
            self.faults.append(fault)
        return fault

    def remove(self, fault: StorageFault) -> None:
        """Take a rule back: the tier works again."""
        with self._lock:
            self.faults.remove(fault)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Hand the settings on."""
        self.inner.configure(settings)

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment."""
        fault = self._begin("copy_log_segment_data", metadata)
        if fault.lost_source is not None:
            lost: dict[str, Any] = {fault.lost_source: f"{data.log_segment}.lost"}
            data = replace(data, **lost)
        custom = self.inner.copy_log_segment_data(metadata, data)
        with self._lock:
            (self._partial.add if fault.partial else self._partial.discard)(metadata.segment_id)
        if fault.partial and fault.error_after is None:
            raise RemoteBackendError(f"the copy of {metadata.segment_id} was cut off")
        _end(fault, "copy_log_segment_data", metadata)
        return custom

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        """Return bytes of the segment."""
        fault = self._begin("fetch_log_segment", metadata)
        self._require_whole(metadata)
        fetched = self.inner.fetch_log_segment(metadata, start, end)
        _end(fault, "fetch_log_segment", metadata)
        return fetched if fault.keep_bytes is None else fetched[: fault.keep_bytes]

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        """Return the same bytes in pieces; `keep_bytes`, `after` and `error_after` take effect while they are read."""
        fault = self._begin("stream_log_segment", metadata)
        self._require_whole(metadata)
        return _FaultyStream(self.inner.stream_log_segment(metadata, start, end), fault, metadata)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return a whole index."""
        fault = self._begin("fetch_index", metadata)
        self._require_whole(metadata)
        fetched = self.inner.fetch_index(metadata, index_type)
        _end(fault, "fetch_index", metadata)
        return fetched if fault.keep_bytes is None else fetched[: fault.keep_bytes]

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove a segment."""
        fault = self._begin("delete_log_segment_data", metadata)
        self.inner.delete_log_segment_data(metadata)
        with self._lock:
            self._partial.discard(metadata.segment_id)
        _end(fault, "delete_log_segment_data", metadata)

    def close(self) -> None:
        """Close the inner storage."""
        self.inner.close()

    def _begin(self, operation: str, metadata: RemoteLogSegmentMetadata) -> StorageFault:
        """Note a call and return the rule for it, after what that rule does at the beginning."""
        with self._lock:
            self.calls.append((operation, metadata.segment_id))
            fault = next((fault for fault in self.faults if fault.fires(operation, metadata)), _NO_FAULT)
        if fault.before is not None:
            fault.before(operation, metadata)
        if fault.error is not None:
            raise fault.error
        return fault

    def _require_whole(self, metadata: RemoteLogSegmentMetadata) -> None:
        with self._lock:
            if metadata.segment_id in self._partial:
                raise SegmentNotFoundError(metadata.segment_id)


class _FaultyStream(Iterator[Buffer]):
    """Pieces of a segment, cut short by a rule; a class, since a generator cannot be closed before its first piece."""

    def __init__(self, pieces: Iterator[Buffer], fault: StorageFault, metadata: RemoteLogSegmentMetadata) -> None:
        self._pieces = pieces
        self._fault = fault
        self._metadata = metadata
        self._left = fault.keep_bytes

    def __next__(self) -> Buffer:
        piece = None if self._left == 0 else next(self._pieces, None)
        if piece is None:
            self.close()
            _end(self._fault, "stream_log_segment", self._metadata)
            raise StopIteration
        if self._left is None:
            return piece
        piece = piece[: self._left]
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _end(fault: StorageFault, operation: str, metadata: RemoteLogSegmentMetadata) -> None:
    if fault.after is not None:
        fault.after(operation, metadata)
    if fault.error_after is not None:
        raise fault.error_after
