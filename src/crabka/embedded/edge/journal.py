"""The requests that clients sent to a broker, with the error codes that they were answered: the last ones, bounded.

Entries keep bytes and are decoded when a test asks; nothing here decides what is answered.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, deque
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from crabka.embedded.edge.fields import error_codes_of, plain_fields
from crabka.embedded.edge.names import api_named, error_name
from crabka.protocol.api_keys import SPECS
from crabka.protocol.apis import read_request, read_response
from crabka.protocol.headers import parse_response_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.ports import Payload
    from crabka.protocol.headers import RequestHeader

MAX_ENTRIES: Final = 2_000
MAX_BYTES: Final = 16 << 20
# A larger frame is not kept: its request has no fields, and of its answer only the error codes are kept.
MAX_FRAME_BYTES: Final = 1 << 20
_LENGTH_BYTES = 4
# What a consumer sends in turn as long as nothing happens.
_BEATS: Final = frozenset(("Fetch", "Heartbeat", "ConsumerGroupHeartbeat"))


@dataclasses.dataclass(slots=True, eq=False)
class JournalEntry:
    """One request. What it was answered is unknown until `is_answered`."""

    api: str
    version: int
    client_id: str | None
    time: datetime
    node_id: int
    peer: str
    # What a fault made of it.
    fault: str | None = None
    is_answered: bool = False
    # False when the journal has forgotten it; its bytes do not count any more.
    is_kept: bool = True
    _api_key: int = -1
    _frame: bytes | None = None
    _body_offset: int = 0
    _errors: tuple[str, ...] | None = None
    _answer: bytes | None = None

    @property
    def body(self) -> Any:
        """Return the request as the message of its version. Raises LookupError if it was too large to be kept."""
        if self._frame is None:
            raise LookupError(f"the journal keeps no request over {MAX_FRAME_BYTES} bytes")
        return read_request(self._api_key, self.version, self._frame, self._body_offset)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the request as plain values: dicts, lists, strings, numbers; durations in milliseconds."""
        return plain_fields(self.body)

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the names of the errors in the answer, each once; none if it succeeded or is not answered yet."""
        if self._errors is None:
            self._errors = self._read_errors()
        return self._errors

    def _read_errors(self) -> tuple[str, ...]:
        if self._answer is None:
            return ()
        frame = memoryview(self._answer)[_LENGTH_BYTES:]
        _, offset = parse_response_header(frame, self._api_key, self.version)
        codes = error_codes_of(read_response(self._api_key, self.version, frame, offset))
        return tuple(error_name(code) for code in codes)

    @property
    def kept_bytes(self) -> int:
        """Return the memory of its frames."""
        return len(self._frame or b"") + len(self._answer or b"")

    def answered(self, response: Iterable[Payload]) -> None:
        """Keep the answer, or of a large one its error codes."""
        answer = b"".join(
            part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in response
        )
        self._answer = answer
        self.is_answered = True
        if len(answer) > MAX_FRAME_BYTES:
            self._errors, self._answer = self._read_errors(), None

    def __str__(self) -> str:
        outcome = ", ".join(self.errors) or ("ok" if self.is_answered else "no answer")
        fault = "" if self.fault is None else f" [fault: {self.fault}]"
        return f"{self.api} v{self.version} of {self.client_id or '-'} to node {self.node_id}: {outcome}{fault}"


class Journal:
    """The last requests. Written on the loops of nodes, read from any thread."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        """Keep at most so many requests, and so many bytes of them."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: deque[JournalEntry] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[JournalEntry]:
        """Return the requests of an API, of a client, or all, the oldest first. Raises ValueError."""
        name = None if api is None else api_named(api).name
        with self._lock:
            entries = list(self._entries)
        return [each for each in entries if name in (None, each.api) and client_id in (None, each.client_id)]

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            for entry in self._entries:
                entry.is_kept = False
            self._entries.clear()
            self._bytes = 0

    def lines(self, last: int = 60) -> list[str]:
        """Return the last requests as text; equal ones in a row, and a waiting consumer, take one line."""
        folded = []
        for _, group in groupby(self.requests(), key=lambda each: None if _is_beat(each) else str(each)):
            first_times: dict[str, datetime] = {}
            counts: Counter[str] = Counter()
            for each in group:
                text = str(each)
                first_times.setdefault(text, each.time)
                counts[text] += 1
            for text, count in counts.items():
                times = f" (x{count})" if count > 1 else ""
                folded.append(f"{first_times[text]:%H:%M:%S.%f}"[:-3] + f" {text}{times}")
        return folded[-last:]

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no request was recorded"

    def __len__(self) -> int:
        return len(self._entries)

    # --- for the edge

    def record(self, header: RequestHeader, frame: memoryview, *, now_ms: int, node_id: int, peer: str) -> JournalEntry:
        """Add a request that has just arrived."""
        entry = JournalEntry(
            SPECS[header.api_key].name,
            header.api_version,
            header.client_id,
            datetime.fromtimestamp(now_ms / 1000, UTC),
            node_id,
            peer,
            _api_key=header.api_key,
            _frame=bytes(frame) if len(frame) <= MAX_FRAME_BYTES else None,
            _body_offset=header.body_offset,
        )
        with self._lock:
            self._entries.append(entry)
            self._bytes += entry.kept_bytes
            self._evict()
        return entry

    def note_answer(self, entry: JournalEntry, response: Iterable[Payload]) -> None:
        """Complete a request that is answered."""
        with self._lock:
            before = entry.kept_bytes
            entry.answered(response)
            if entry.is_kept:
                self._bytes += entry.kept_bytes - before
                self._evict()

    def _evict(self) -> None:
        while len(self._entries) > self._max_entries or (self._bytes > self._max_bytes and len(self._entries) > 1):
            oldest = self._entries.popleft()
            oldest.is_kept = False
            self._bytes -= oldest.kept_bytes


def _is_beat(entry: JournalEntry) -> bool:
    return entry.api in _BEATS and entry.fault is None and not entry.errors
