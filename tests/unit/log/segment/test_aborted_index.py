from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import WRONG_INDEX, AbortedTransaction, encode_aborted, note_of
from crabka.log.segment.aborted_index import AbortedIndex
from tests.support.storage.small import LOG_DIR, make_context

FIRST, SECOND = AbortedTransaction(1, 0, 3, 4), AbortedTransaction(2, 5, 8, 9)


def test_entries_are_in_the_file_at_once() -> None:
    context = make_context()
    index = AbortedIndex(context, LOG_DIR, 0)
    assert index.entries() == []
    index.append(FIRST)
    index.append(SECOND)
    assert AbortedIndex(context, LOG_DIR, 0).entries() == index.entries() == [FIRST, SECOND]
    assert index.noted(is_active=True) == note_of(encode_aborted([FIRST, SECOND]))


def test_a_file_that_is_not_the_noted_one_is_damaged() -> None:
    context = make_context()
    AbortedIndex(context, LOG_DIR, 0).replace([FIRST, SECOND])
    index = AbortedIndex(context, LOG_DIR, 0)
    index.expect(note_of(encode_aborted([FIRST])))
    with pytest.raises(CorruptDataError, match="noted were"):
        index.entries()


def test_entries_that_may_be_incomplete_are_held_in_memory_only() -> None:
    context = make_context()
    index = AbortedIndex(context, LOG_DIR, 0)
    index.hold([FIRST])
    index.append(SECOND)
    index.forget()
    index.truncate(5)
    assert (index.entries(), index.is_unsure, index.noted(is_active=False)) == ([FIRST], True, WRONG_INDEX)
    assert not context.fs.exists(index.path)


def test_without_entries_there_is_no_file() -> None:
    context = make_context()
    index = AbortedIndex(context, LOG_DIR, 0)
    index.replace([FIRST, SECOND])
    index.truncate(5)
    assert AbortedIndex(context, LOG_DIR, 0).entries() == [FIRST]
    index.truncate(0)
    assert not context.fs.exists(index.path)
