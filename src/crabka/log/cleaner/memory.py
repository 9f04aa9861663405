"""What the records of one batch may hold in memory while a log is cleaned.

A step of the cleaner holds one decompressed batch at a time. It runs with what batches usually need at the most
(`decompressed_limit`), so that writers of other compacted topics hardly wait for it. A batch that needs more ends the
step, and the next one has as much as any batch may hold (`search_limit`). Knows nothing of the budget that both come
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.protocol.error_codes import ErrorCode
from crabka.records.errors import CorruptBatchError
from crabka.records.filtering import RawRecord, raw_records, raw_records_in
from crabka.records.record import records_payload

if TYPE_CHECKING:
    from crabka.ports import Buffer
    from crabka.records.header import BatchHeader


class BatchMemory:
    """The memory of one pass over a log. Only for the thread that runs its step."""

    def __init__(self, usual_bytes: int, most_bytes: int) -> None:
        self._usual_bytes = usual_bytes
        self._most_bytes = most_bytes
        # What the step that runs, or the next one, may hold.
        self.step_bytes = usual_bytes
        self._ready: tuple[BatchHeader, bytes] | None = None

    def must_wait(self, batch: Buffer, header: BatchHeader) -> bool:
        """Return whether the records need more than the current step may hold; the step has to end then.

        Otherwise `records` returns them without decompressing anew.
        """
        self._ready = None
        self.step_bytes = self._usual_bytes
        if header.codec:
            try:
                self._ready = header, records_payload(batch, header, self._usual_bytes)
            except CorruptBatchError as error:
                # Whatever else is wrong with it, `records` says, if they are needed at all.
                if error.error_code is ErrorCode.message_too_large:
                    self.step_bytes = self._most_bytes
        return self.step_bytes > self._usual_bytes

    def records(self, batch: Buffer, header: BatchHeader) -> list[RawRecord]:
        """Return the records of a batch. Raises CorruptBatchError."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] is header:
            return raw_records_in(ready[1], header)
        return raw_records(batch, header, self.step_bytes)
