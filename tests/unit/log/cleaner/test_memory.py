from __future__ import annotations

import pytest

from crabka.log.cleaner.memory import BatchMemory
from crabka.records.builder import build_batch
from crabka.records.compression import NONE, ZSTD
from crabka.records.errors import CorruptBatchError
from crabka.records.header import parse_header
from crabka.records.record import Record


def batch_of(value_bytes: int, codec: int = ZSTD) -> bytes:
    return bytes(build_batch([Record(0, 0, b"k", bytes(value_bytes))], codec=codec))


@pytest.mark.parametrize(("value_bytes", "codec"), [(900, ZSTD), (900, NONE), (5_000, NONE)])
def test_what_is_small_or_not_compressed_needs_no_more_than_usual(value_bytes: int, codec: int) -> None:
    memory, batch = BatchMemory(1_000, 10_000), batch_of(value_bytes, codec)
    header = parse_header(batch)
    assert not memory.must_wait(batch, header)
    assert memory.step_bytes == 1_000
    assert [record.key for record in memory.records(batch, header)] == [b"k"]


def test_a_larger_batch_ends_the_step_and_the_next_one_has_room_for_it() -> None:
    memory, large, small = BatchMemory(1_000, 10_000), batch_of(5_000), batch_of(10)
    assert memory.must_wait(large, parse_header(large))
    assert memory.step_bytes == 10_000
    assert [record.key for record in memory.records(large, parse_header(large))] == [b"k"]
    assert not memory.must_wait(small, parse_header(small))
    assert memory.step_bytes == 1_000


def test_a_batch_beyond_all_limits_is_refused() -> None:
    memory, batch = BatchMemory(1_000, 10_000), batch_of(50_000)
    assert memory.must_wait(batch, parse_header(batch))
    with pytest.raises(CorruptBatchError, match="more than the allowed 10000"):
        memory.records(batch, parse_header(batch))


def test_records_are_those_of_the_batch_that_is_asked_for() -> None:
    memory, passed_over, wanted = BatchMemory(1_000, 10_000), batch_of(10), batch_of(20)
    assert not memory.must_wait(passed_over, parse_header(passed_over))
    assert len(memory.records(wanted, parse_header(wanted))[0].tail) > 20


def test_damage_shows_when_the_records_are_needed() -> None:
    memory, batch = BatchMemory(1_000, 10_000), bytearray(batch_of(100))
    batch[-4:] = bytes(4)
    header = parse_header(batch)
    assert not memory.must_wait(batch, header)
    with pytest.raises(CorruptBatchError):
        memory.records(batch, header)
