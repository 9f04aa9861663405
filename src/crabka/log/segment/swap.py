"""How a cleaned segment takes the place of others, so that a crash at any moment leaves the old state or the new.

    <base>.{log,index,timeindex,txnindex}.cleaned   written and synced, may be thrown away
    <base>.*.swap                                   committed by the name of the log: the replacing will be completed
    <base>.*                                        in place

The log's name decides. While `<base>.log.cleaned` is there nothing has happened. From `<base>.log.swap` on the segments
that it covers may go. Index files without either belong to a log that is in place already. Names are synced between
these steps, because a crash may keep any of the renames that were not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from crabka.formats.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from crabka.formats.transaction_index import AbortedTransaction, encode_aborted
from crabka.log.segment.scan import scan_headers
from crabka.vfs import write_synced

if TYPE_CHECKING:
    from crabka.log.segment.indexes import SegmentIndexes
    from crabka.ports import Buffer, File, FileSystem

INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)
_UNDERWAY: Final = re.compile(r"^(\d{20})\.(?:log|index|timeindex|txnindex)\.(?:cleaned|swap)$")


class CleanedFiles:
    """The files of one segment on their way into place. `stem` is their path without suffixes."""

    __slots__ = ("_fs", "_log", "stem")

    def __init__(self, fs: FileSystem, stem: str) -> None:
        self._fs = fs
        self._log: File | None = None
        self.stem = stem

    @property
    def _directory(self) -> str:
        return posixpath.dirname(self.stem)

    def create(self) -> None:
        """Begin with an empty log file."""
        self._log = self._fs.open(self.stem + LOG_SUFFIX + CLEANED_SUFFIX, create=True)
        self._log.truncate(0)

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write batches at `position`, the end so far."""
        if self._log is not None:
            self._log.pwritev(buffers, position)

    def finish(self, indexes: SegmentIndexes, aborted: Sequence[AbortedTransaction]) -> None:
        """Write the index files and make all files and their names durable."""
        if self._log is not None:
            self._log.fsync()
        # All three, also without content: each must replace an older one.
        contents = (indexes.offsets.encode(), indexes.times.encode(), encode_aborted(aborted))
        for suffix, content in zip(INDEX_SUFFIXES, contents, strict=True):
            write_synced(self._fs, self.stem + suffix + CLEANED_SUFFIX, content)
        self._fs.fsync_dir(self._directory)

    def close(self) -> None:
        """Close the log file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def discard(self) -> None:
        """Remove what is not committed."""
        for suffix in SEGMENT_SUFFIXES:
            if self._fs.exists(self.stem + suffix + CLEANED_SUFFIX):
                self._fs.unlink(self.stem + suffix + CLEANED_SUFFIX)

    def commit(self) -> None:
        """Decide that these files will be in place, durably."""
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            self._fs.rename(self.stem + suffix + CLEANED_SUFFIX, self.stem + suffix + SWAP_SUFFIX)
        self._fs.fsync_dir(self._directory)

    def install(self) -> None:
        """Give the committed files their names. Everything else that they replace is durably gone."""
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            if self._fs.exists(self.stem + suffix + SWAP_SUFFIX):
                self._fs.rename(self.stem + suffix + SWAP_SUFFIX, self.stem + suffix)
        txn_index = self.stem + TXN_INDEX_SUFFIX
        if self._fs.exists(txn_index) and not self._fs.stat(txn_index).size_bytes:
            self._fs.unlink(txn_index)


def complete_swaps(fs: FileSystem, directory: str) -> None:
    """Finish or undo, when a log is opened, what a crash interrupted."""
    names = set(fs.listdir(directory))
    underway = {match.group(1) for name in names if (match := _UNDERWAY.match(name))}
    for stem in sorted(underway):
        if stem + LOG_SUFFIX + CLEANED_SUFFIX in names:
            _undo(fs, directory, stem, names)
        elif stem + LOG_SUFFIX + SWAP_SUFFIX in names:
            _complete(fs, directory, stem, names)
        else:
            _complete_indexes(fs, directory, stem, names)
    if underway:
        fs.fsync_dir(directory)


def _undo(fs: FileSystem, directory: str, stem: str, names: Collection[str]) -> None:
    for suffix in INDEX_SUFFIXES:
        for state in (CLEANED_SUFFIX, SWAP_SUFFIX):
            if stem + suffix + state in names:
                fs.unlink(f"{directory}/{stem}{suffix}{state}")
    # An index file must not survive the name that marks it as worthless.
    fs.fsync_dir(directory)
    fs.unlink(f"{directory}/{stem}{LOG_SUFFIX}{CLEANED_SUFFIX}")


def _complete(fs: FileSystem, directory: str, stem: str, names: Collection[str]) -> None:
    for suffix in INDEX_SUFFIXES:
        if stem + suffix + CLEANED_SUFFIX in names:
            fs.rename(f"{directory}/{stem}{suffix}{CLEANED_SUFFIX}", f"{directory}/{stem}{suffix}{SWAP_SUFFIX}")
    end = offset_name(_next_offset(fs, f"{directory}/{stem}{LOG_SUFFIX}{SWAP_SUFFIX}"))
    for name in sorted(names):
        base, _, kind = name.partition(".")
        if stem < base < end and f".{kind}" in SEGMENT_SUFFIXES:
            fs.unlink(f"{directory}/{name}")
    fs.fsync_dir(directory)
    CleanedFiles(fs, f"{directory}/{stem}").install()


def _complete_indexes(fs: FileSystem, directory: str, stem: str, names: Collection[str]) -> None:
    for suffix in INDEX_SUFFIXES:
        # Without a log of either kind a `.cleaned` file is the rest of a copy that had hardly begun.
        if stem + suffix + CLEANED_SUFFIX in names:
            fs.unlink(f"{directory}/{stem}{suffix}{CLEANED_SUFFIX}")
    CleanedFiles(fs, f"{directory}/{stem}").install()


def _next_offset(fs: FileSystem, path: str) -> int:
    """Return the offset after the last batch of a log file, 0 if it is empty."""
    file = fs.open(path, read_only=True)
    try:
        end = 0
        for _, header in scan_headers(file, 0, file.size()):
            end = header.next_offset
        return end
    finally:
        file.close()
