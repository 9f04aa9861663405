"""A file of a log: which of them have aborted transactions, and what their indexes must be.

    aborted-transactions-checkpoint, in the format of Kafka's checkpoints: `base_offset size_bytes crc32c`

Kafka gives a segment without aborted transactions no `.txnindex`, so a lost one looks like none was needed, and
read_committed consumers would be given aborted records. The note makes the difference known without reading the log.

The rule: a segment that is sealed, and every segment at a clean stop, is in the note if it has aborted transactions. An
opening compares each noted segment with its file and reads every index file that there is; a file that is missing,
empty, shorter, longer or changed is rebuilt from the log. Segments from the recovery point on are rebuilt anyway after
a crash. The note is a hint: without one, or with a damaged one, only files that cannot be decoded are found at the
start, and the others by the check of the logs (`crabka.log.scrub.*`). A wrong note costs a rebuild with the same
result. Kafka ignores the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_checkpoint, encode_checkpoint
from crabka.formats.file_names import ABORTED_CHECKPOINT
from crabka.formats.transaction_index import IndexNote
from crabka.log.segment.indexes import write_end
from crabka.vfs import read_file

if TYPE_CHECKING:
    from crabka.ports import FileSystem


def read_aborted_note(fs: FileSystem, directory: str) -> dict[int, IndexNote]:
    """Return the noted segments by base offset; none if there is no note or it cannot be read."""
    path = f"{directory}/{ABORTED_CHECKPOINT}"
    try:
        entries = decode_checkpoint(read_file(fs, path), 3, path)
        return {int(base): IndexNote(int(size_bytes), int(crc)) for base, size_bytes, crc in entries}
    except (FileNotFoundError, CorruptDataError, ValueError):
        return {}


def write_aborted_note(fs: FileSystem, directory: str, notes: Mapping[int, IndexNote]) -> None:
    """Replace the note, in the page cache; the next flush of the log makes it durable. A torn one counts as none."""
    lines = [f"{base} {note.size_bytes} {note.crc}" for base, note in notes.items()]
    write_end(fs, f"{directory}/{ABORTED_CHECKPOINT}", encode_checkpoint(lines), 0)
