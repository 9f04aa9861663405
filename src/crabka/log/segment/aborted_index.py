"""The transaction index of one segment: its aborted transactions, in memory and in the `.txnindex` file.

A segment without aborted transactions has no file. Size and checksum of a file that was right are noted, so that one
that was lost or changed is found; `aborted_note` keeps these notes in a file of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.file_names import TXN_INDEX_SUFFIX, offset_name
from crabka.formats.transaction_index import (
    WRONG_INDEX,
    AbortedTransaction,
    IndexNote,
    decode_aborted,
    encode_aborted,
    note_of,
)
from crabka.log.segment.indexes import write_end
from crabka.vfs import read_file

if TYPE_CHECKING:
    from crabka.log.segment.context import SegmentContext


class AbortedIndex:
    """The aborted transactions whose markers are in a segment."""

    __slots__ = ("_base_offset", "_context", "_entries", "_noted", "directory", "is_unsure")

    def __init__(self, context: SegmentContext, directory: str, base_offset: int) -> None:
        self._context = context
        self.directory = directory
        self._base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = None
        # Size and checksum that the file had when it was last known to be right, None if never.
        self._noted: IndexNote | None = None
        # Transactions may be missing, because a batch that ends one is damaged.
        self.is_unsure = False

    @property
    def path(self) -> str:
        """Path of the file, which may not exist."""
        return f"{self.directory}/{offset_name(self._base_offset)}{TXN_INDEX_SUFFIX}"

    def entries(self) -> list[AbortedTransaction]:
        """Return the aborted transactions.

        Raises CorruptDataError if the file is damaged, or not the one that was noted.
        """
        if self._entries is None:
            entries = self.read()
            self._noted = note_of(encode_aborted(entries))
            self._entries = entries
        return self._entries

    def read(self) -> list[AbortedTransaction]:
        """Return the present content of the file. Raises as `entries`."""
        try:
            data = read_file(self._context.fs, self.path)
        except FileNotFoundError:
            data = b""
        entries = decode_aborted(data, self.path)
        if self._noted is not None and self._noted != note_of(data):
            raise CorruptDataError(
                self.path, f"transaction index of {len(data)} bytes, noted were {self._noted.size_bytes}"
            )
        return entries

    def noted(self, *, is_active: bool) -> IndexNote | None:
        """Return size and checksum of the file, None if they are not known. That of an active segment grows."""
        if self.is_unsure:
            return WRONG_INDEX
        if self._entries is not None and is_active:
            return note_of(encode_aborted(self._entries))
        return self._noted

    def expect(self, noted: IndexNote | None) -> None:
        """Expect a file of this size and checksum from now on."""
        self._noted = noted

    def forget(self) -> None:
        """Read the file when the entries are needed next."""
        if not self.is_unsure:
            self._entries = None

    def append(self, entry: AbortedTransaction) -> None:
        """Add an aborted transaction, in the file at once."""
        entries = self.entries()
        if self.is_unsure:
            entries.append(entry)
            return
        write_end(self._context.fs, self.path, encode_aborted([entry]), len(encode_aborted(entries)))
        entries.append(entry)

    def hold(self, entries: list[AbortedTransaction]) -> None:
        """Use these entries in memory only: a damaged batch may hide others.

        The file and its note stay wrong, so that the next start repairs them as well.
        """
        self._entries = entries
        self.is_unsure = True

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Rewrite the file; without entries there is none."""
        self._entries = entries
        content = encode_aborted(entries)
        self._noted = note_of(content)
        self.is_unsure = False
        if entries:
            write_end(self._context.fs, self.path, content, 0)
        elif self._context.fs.exists(self.path):
            self._context.fs.unlink(self.path)

    def truncate(self, end_offset: int) -> None:
        """Drop the transactions that end at or after an offset."""
        kept = [entry for entry in self.entries() if entry.last_offset < end_offset]
        if self.is_unsure:
            self.hold(kept)
        else:
            self.replace(kept)
