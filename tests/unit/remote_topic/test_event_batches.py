"""Values out of fetched batches: as any consumer sees them, whatever the batches look like."""

from __future__ import annotations

import pytest

from crabka.clients.fetcher.isolation import visible_batches
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.header import HEADER_SIZE, sealed
from crabka.records.record import Record
from crabka.remote_topic import event_batches
from crabka.remote_topic.event_batches import portions
from tests.support.recorded.files import GOLDEN


def single(offset: int, value: bytes | None, **options: int) -> bytes:
    return build_batch([Record(0, 1_000, None, value)], base_offset=offset, **options)  # type: ignore[arg-type]


def read(data: bytes, start: int = 0, size: int = 1_000) -> list[tuple[int, bytes | None]]:
    return [record for records, _, _ in portions(data, start, size) for record in records]


def as_consumer(data: bytes, start: int = 0) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for batch in visible_batches(data, start, None) for r in batch.records]


@pytest.mark.parametrize("length", [0, 1, 20, 55, 56, 57, 62, 63, 64, 65, 8_100, 8_191, 8_192, 20_000])
def test_one_value_of_any_length_is_read(length: int) -> None:
    data = single(7, b"v" * length)
    assert read(data) == [(7, b"v" * length)]
    assert list(portions(data, 0, 10)) == [([(7, b"v" * length)], 8, -1)]


def test_batches_of_every_kind_are_read_as_by_a_consumer() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=0)
    data = b"".join(
        [
            single(0, b"plain"),
            single(1, None),
            single(2, b"idempotent", producer_id=9, producer_epoch=0, base_sequence=4),
            *(single(3 + codec, b"compressed" * 9, codec=codec) for codec in range(5)),
            single(8, b"transactional", producer_id=9, producer_epoch=0, base_sequence=5, transactional=True),
            build_end_transaction_batch(marker, producer_id=9, producer_epoch=0, timestamp=5, base_offset=9),
            build_batch([Record(0, 1_000, b"key", b"with a key", (("h", b"x"),))], base_offset=10),
            build_batch([Record(0, 1_000, None, b"with headers", (("h", b"x"),))], base_offset=11),
            build_batch([Record(0, 1_000 + n, None, b"%d" % n) for n in range(5)], base_offset=12),
            single(20, b"behind a gap"),
        ]
    )
    assert read(data) == as_consumer(data)
    assert len(read(data)) == 17
    for start in range(22):
        assert read(data, start) == as_consumer(data, start)
    assert [next_offset for _, next_offset, _ in portions(data, 0, 1_000)] == [21]


def test_portions_are_not_larger_than_asked_for() -> None:
    data = b"".join(single(offset, b"%d" % offset) for offset in range(10))
    assert [len(records) for records, _, _ in portions(data, 0, 4)] == [4, 4, 2]
    assert [next_offset for _, next_offset, _ in portions(data, 0, 4)] == [4, 8, 10]
    batch = build_batch([Record(0, 1_000, None, b"%d" % n) for n in range(10)])
    assert [next_offset for _, next_offset, _ in portions(batch, 3, 4)] == [7, 10]


def test_a_simple_batch_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("this is a simple batch")

    monkeypatch.setattr(event_batches, "_values_of", refuse)
    assert (
        len(read(single(0, b"v" * 109) + single(1, b"v" * 84, producer_id=1, producer_epoch=0, base_sequence=0))) == 2
    )


def test_an_incomplete_batch_at_the_end_is_left_out() -> None:
    data = single(0, b"first") + single(1, b"second")
    for size in range(len(data)):
        assert read(data[:size]) == as_consumer(data[:size])


@pytest.mark.parametrize("count", [1, 2])
def test_a_flipped_bit_behind_the_checksum_is_noticed(count: int) -> None:
    data = build_batch([Record(0, 1_000, None, b"value")] * count)
    for position in range(17, len(data)):
        broken = bytearray(data)
        broken[position] ^= 4
        with pytest.raises(CorruptBatchError):
            read(bytes(broken))


@pytest.mark.parametrize("length", [0, -1, 48, -(2**31)])
def test_a_length_that_cannot_be_is_noticed(length: int) -> None:
    data = single(0, b"value")
    with pytest.raises(CorruptBatchError, match="claims a length"):
        read(data[:8] + length.to_bytes(4, "big", signed=True) + data[12:])


@pytest.mark.parametrize("position", range(HEADER_SIZE, HEADER_SIZE + 12))
@pytest.mark.parametrize("byte", [0, 1, 2, 0x7F, 0x80, 0xFF])
def test_a_record_that_is_wrong_under_a_right_checksum_is_no_other_record(position: int, byte: int) -> None:
    data = bytearray(single(0, b"value"))
    data[position] = byte
    broken = sealed(data)
    try:
        expected = as_consumer(broken)
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            read(broken)
    else:
        assert read(broken) == expected


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_batches_of_kafka_are_read_as_by_a_consumer(node: str) -> None:
    for path in (GOLDEN / node).glob("d?/__remote_log_metadata-*/*.log"):
        data = path.read_bytes()
        assert read(data) == as_consumer(data)


def test_a_portion_has_one_epoch() -> None:
    epochs = [3, 3, 3, 5, 5, 7]
    data = b"".join(single(offset, b"v", leader_epoch=epoch) for offset, epoch in enumerate(epochs))
    found = [([offset for offset, _ in records], *rest) for records, *rest in portions(data, 0, 2)]
    assert found == [([0, 1], 2, 3), ([2], 3, 3), ([3, 4], 5, 5), ([5], 6, 7)]


def test_the_epoch_of_a_batch_without_values_counts() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=0)
    control = build_end_transaction_batch(marker, producer_id=9, producer_epoch=0, timestamp=5, base_offset=1)
    data = single(0, b"v", leader_epoch=1) + control[:12] + (2).to_bytes(4, "big") + control[16:]
    assert [rest for _, *rest in portions(data, 0, 9)] == [[1, 1], [2, 2]]
