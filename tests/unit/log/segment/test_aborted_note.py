"""The note of segments with aborted transactions."""

from __future__ import annotations

from crabka.formats.file_names import ABORTED_CHECKPOINT
from crabka.formats.transaction_index import IndexNote
from crabka.log.segment.aborted_note import read_aborted_note, write_aborted_note
from crabka.testing import MemoryFileSystem


def test_a_note_is_read_as_it_was_written() -> None:
    fs = MemoryFileSystem()
    notes = {0: IndexNote(34, 7), 500: IndexNote(68, 4_000_000_000), 900: IndexNote(-1, 0)}
    write_aborted_note(fs, "", notes)
    assert read_aborted_note(fs, "") == notes
    write_aborted_note(fs, "", {500: notes[500]})
    assert read_aborted_note(fs, "") == {500: notes[500]}


def test_a_missing_or_torn_note_says_nothing() -> None:
    fs = MemoryFileSystem()
    assert read_aborted_note(fs, "") == {}
    write_aborted_note(fs, "", {0: IndexNote(34, 7), 500: IndexNote(68, 8)})
    file = fs.open(f"/{ABORTED_CHECKPOINT}")
    file.truncate(file.size() - 6)
    assert read_aborted_note(fs, "") == {}
    file.pwritev([b"\xff\xfe"], 0)
    assert read_aborted_note(fs, "") == {}
