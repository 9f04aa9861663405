"""Compiled walks over batch headers, records and record headers (record format v2).

numba checks no bounds, so every read here comes after a comparison with the end of what may be read: whatever the bytes
claim, a walk ends with a code and never outside its buffer. All positions and sizes are signed 64-bit numbers.

Tables have one line per batch; which column means what is in the constants. `rows` has one line per meaning and one
column per record, so that each meaning lies in one piece of memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import types

from crabka.spark.decode.jit import BYTES, INT64S, TABLE, THREE_NUMBERS, called, compiled, inlined

Bytes = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]
Number = int | np.int64

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_OLD_FORMAT_MIN_LENGTH: Final = 14

# Columns of the table of headers.
POSITION: Final = 0
SIZE: Final = 1
BASE_OFFSET: Final = 2
LAST_DELTA: Final = 3
MAGIC: Final = 4
CRC: Final = 5
ATTRIBUTES: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
COUNT: Final = 10
HEADER_FIELDS: Final = 11

# Columns of the table of batches to walk.
BATCH_START: Final = 0  # of the records left in the buffer; -1: the records are not needed, offsets have no gaps
BATCH_END: Final = 1
BATCH_OFFSET: Final = 2
BATCH_LAST_DELTA: Final = 3
BATCH_COUNT: Final = 4  # of the records left
BATCH_TIMESTAMP: Final = 5
BATCH_APPEND_TIME: Final = 6  # 1: the timestamp is that of every record
BATCH_ROWS: Final = 7  # written by the walk: how many records were kept
BATCH_NEXT_DELTA: Final = 8  # the least offset delta that the next record may have
BATCH_FIELDS: Final = 9

# Lines of `rows`.
ROW_OFFSET: Final = 0
ROW_MICROS: Final = 1
ROW_KEY_AT: Final = 2
ROW_KEY_SIZE: Final = 3
ROW_VALUE_AT: Final = 4
ROW_VALUE_SIZE: Final = 5
ROW_HEADERS_AT: Final = 6
ROW_HEADERS: Final = 7
ROW_SIZE: Final = 8
ROW_FIELDS: Final = 9

# Lines of `headers`.
HEADER_NAME_AT: Final = 0
HEADER_NAME_SIZE: Final = 1
HEADER_VALUE_AT: Final = 2
HEADER_VALUE_SIZE: Final = 3
HEADER_FIELDS_OF_RECORD: Final = 4

# Headers take two bytes each, and many times that as rows: memory must not follow them.
RECORD_HEADERS_MAX: Final = 1 << 20

# What `limits` holds.
LIMIT_START: Final = 0  # the first offset that counts
LIMIT_END: Final = 1  # the offset after the last that counts
LIMIT_WANT: Final = 2
LIMIT_BATCH: Final = 3  # where to go on
LIMIT_ROW: Final = 4
LIMITS: Final = 5

# What the walk needs to look at, besides offsets.
WANT_TIMES: Final = 1
WANT_KEYS: Final = 2
WANT_VALUES: Final = 4
WANT_HEADERS: Final = 8

# How a walk ended.
DONE: Final = 0
CUT_SHORT: Final = 1
TOO_LONG: Final = 2
BAD_FIELD: Final = 3
BAD_LENGTH: Final = 4
BAD_OFFSET: Final = 5
BAD_TIME: Final = 6
LEFT_OVER: Final = 7
BAD_HEADERS: Final = 8
NO_SPACE: Final = 9
BAD_ORDER: Final = 10
MANY_HEADERS: Final = 11
FULL: Final = 12  # not an error: there are records left for which `rows` has no column

REASONS: Final = {
    CUT_SHORT: "a record is cut short",
    TOO_LONG: "a record does not fit in its batch",
    BAD_FIELD: "a field does not fit in its record",
    BAD_LENGTH: "the length of a record contradicts its content",
    BAD_OFFSET: "a record has an offset outside its batch",
    BAD_TIME: "a timestamp is outside the range of Spark's timestamps",
    LEFT_OVER: "bytes follow the last record",
    BAD_HEADERS: "a record has broken headers",
    NO_SPACE: "there are more records than the header says",
    BAD_ORDER: "a record has an offset that is not above the one before it",
    MANY_HEADERS: f"a record has more than {RECORD_HEADERS_MAX} headers: no damage, but the limit of this reader",
}

_VARINT_BYTES: Final = 5
_INT32_MAX: Final = (1 << 31) - 1
_VARLONG_LAST_SHIFT: Final = 63
_MILLIS_MAX: Final = ((1 << 63) - 1) // 1000
_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)


@inlined
def _big_endian(data: Bytes, position: Number, size: Number) -> Number:
    """The signed number in `size` bytes, which the caller knows to be there."""
    value = np.int64(data[position])
    if value > 127:
        value -= 256
    for index in range(1, size):
        value = (value << 8) | np.int64(data[position + index])
    return value


@called
def _long_varint(data: Bytes, position: Number, end: Number) -> tuple[Number, Number]:
    """(value, position after it); the position is -1 if it is cut short or has more than 64 bits."""
    raw = np.int64(0)
    shift = 0
    while True:
        if position >= end:
            return np.int64(0), np.int64(-1)
        byte = np.int64(data[position])
        position += 1
        if shift == _VARLONG_LAST_SHIFT and byte > 1:
            return np.int64(0), np.int64(-1)
        raw |= (byte & 127) << shift
        if byte < 128:
            # The sign bit of `raw` is the highest bit of an unsigned number.
            return ((raw >> 1) & _INT64_MAX) ^ -(raw & 1), position
        shift += 7


@inlined
def _varint(data: Bytes, position: Number, end: Number) -> tuple[Number, Number]:
    """(value, position after it); the position is -1 if it is cut short or has more than 32 bits."""
    # Nearly all lengths and deltas take one or two bytes.
    if position + 1 < end:
        first = np.int64(data[position])
        if first < 128:
            return (first >> 1) ^ -(first & 1), position + 1
        second = np.int64(data[position + 1])
        if second < 128:
            raw = (first & 127) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), position + 2
    value, position = _long_varint(data, position, min(end, position + _VARINT_BYTES))
    if value > _INT32_MAX or value < -_INT32_MAX - 1:
        return np.int64(0), np.int64(-1)
    return value, position


@inlined
def _varlong(data: Bytes, position: Number, end: Number) -> tuple[Number, Number]:
    """As `_varint`, with 64 bits."""
    if position + 1 < end:
        first = np.int64(data[position])
        if first < 128:
            return (first >> 1) ^ -(first & 1), position + 1
        second = np.int64(data[position + 1])
        if second < 128:
            raw = (first & 127) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), position + 2
    return _long_varint(data, position, end)


@compiled(THREE_NUMBERS, BYTES, types.int64, TABLE)
def walk_headers(data: Bytes, position: Number, table: Table) -> tuple[Number, Number, Number]:
    """Fill the table with the batches from `position` on that are there as a whole.

    Returns (position after the last one, how many, 1 if the length at that position is impossible).
    """
    end = np.int64(len(data))
    count = np.int64(0)
    while count < len(table) and position + _MAGIC_AT < end:
        length = _big_endian(data, position + 8, 4)
        magic = _big_endian(data, position + _MAGIC_AT, 1)
        old = 0 <= magic < 2 and length >= _OLD_FORMAT_MIN_LENGTH
        if length < HEADER_SIZE - LOG_OVERHEAD and not old:
            return position, count, np.int64(1)
        if length > end - position - LOG_OVERHEAD:
            break
        line = table[count]
        line[POSITION] = position
        line[SIZE] = length + LOG_OVERHEAD
        line[BASE_OFFSET] = _big_endian(data, position, 8)
        line[MAGIC] = magic
        if not old:
            line[CRC] = _big_endian(data, position + 17, 4) & 0xFFFFFFFF
            line[ATTRIBUTES] = _big_endian(data, position + 21, 2)
            line[LAST_DELTA] = _big_endian(data, position + 23, 4)
            line[BASE_TIMESTAMP] = _big_endian(data, position + 27, 8)
            line[MAX_TIMESTAMP] = _big_endian(data, position + 35, 8)
            line[PRODUCER_ID] = _big_endian(data, position + 43, 8)
            line[COUNT] = _big_endian(data, position + 57, 4)
        count += 1
        position += length + LOG_OVERHEAD
    return position, count, np.int64(0)


@inlined
def _micros(base: Number, delta: Number) -> tuple[Number, Number]:
    """(microseconds, 1 if they do not fit)."""
    if (delta > 0 and base > _INT64_MAX - delta) or (delta < 0 and base < _INT64_MIN - delta):
        return np.int64(0), np.int64(1)
    millis = base + delta
    if millis > _MILLIS_MAX or millis < -_MILLIS_MAX:
        return np.int64(0), np.int64(1)
    return millis * 1000, np.int64(0)


@inlined
def _skip_headers(data: Bytes, position: Number, end: Number, count: Number) -> Number:
    """The position after so many headers, -1 if they are broken."""
    for _ in range(count):
        size, position = _varint(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return np.int64(-1)
        position += size
        size, position = _varint(data, position, end)
        if position < 0 or size > end - position:
            return np.int64(-1)
        if size > 0:
            position += size
    return position


@inlined
def _walk_fields(data: Bytes, span: tuple[Number, Number], want: Number, rows: Table, row: Number) -> Number:
    """Note key, value and headers of one record as far as they are wanted; returns how it ended."""
    position, end = span
    size, position = _varint(data, position, end)
    if position < 0 or size > end - position:
        return BAD_FIELD
    rows[ROW_KEY_AT, row] = position
    rows[ROW_KEY_SIZE, row] = size
    if want & (WANT_VALUES | WANT_HEADERS) == 0:
        return DONE
    if size > 0:
        position += size
    size, position = _varint(data, position, end)
    if position < 0 or size > end - position:
        return BAD_FIELD
    rows[ROW_VALUE_AT, row] = position
    rows[ROW_VALUE_SIZE, row] = size
    if want & WANT_HEADERS == 0:
        return DONE
    if size > 0:
        position += size
    count, position = _varint(data, position, end)
    if position < 0 or count < 0:
        return BAD_HEADERS
    if count > RECORD_HEADERS_MAX:
        return MANY_HEADERS if count <= (end - position) >> 1 else BAD_HEADERS
    rows[ROW_HEADERS_AT, row] = position
    rows[ROW_HEADERS, row] = count
    position = _skip_headers(data, position, end, count)
    if position < 0:
        return BAD_HEADERS
    return DONE if position == end else BAD_LENGTH


@inlined
def _count_rows(batch: Numbers, limits: Numbers, rows: Table, row: Number) -> tuple[Number, Number]:
    """The rows of a batch whose records are not needed: offsets without gaps, one timestamp."""
    micros, misfit = _micros(batch[BATCH_TIMESTAMP], np.int64(0))
    if misfit and limits[LIMIT_WANT] & WANT_TIMES:
        return BAD_TIME, row
    first = max(batch[BATCH_OFFSET], limits[LIMIT_START])
    end = min(batch[BATCH_OFFSET] + batch[BATCH_COUNT], limits[LIMIT_END])
    if end - first > rows.shape[1] - row:
        return NO_SPACE, row
    for offset in range(first, end):
        rows[ROW_OFFSET, row] = offset
        rows[ROW_MICROS, row] = micros
        rows[ROW_SIZE, row] = 0
        row += 1
    return DONE, row


@inlined
def _walk_batch(data: Bytes, batch: Numbers, limits: Numbers, rows: Table, row: Number) -> tuple[Number, Number]:
    """Note the records of one batch; returns (how it ended, the next free row).

    Without a free row the batch becomes that of the records left, so that another walk can go on with them.
    """
    # Whatever is written to `rows` might be in the tables for all that the compiler knows: read them once.
    position, batch_end, last_delta = batch[BATCH_START], batch[BATCH_END], batch[BATCH_LAST_DELTA]
    base_offset, base_time, append_time = batch[BATCH_OFFSET], batch[BATCH_TIMESTAMP], batch[BATCH_APPEND_TIME]
    start, stop, want = limits[LIMIT_START], limits[LIMIT_END], limits[LIMIT_WANT]
    count, next_delta, space = batch[BATCH_COUNT], batch[BATCH_NEXT_DELTA], rows.shape[1]
    for done in range(count):
        if row >= space:
            batch[BATCH_START], batch[BATCH_COUNT], batch[BATCH_NEXT_DELTA] = position, count - done, next_delta
            return FULL, row
        size, position = _varint(data, position, batch_end)
        if position < 0:
            return CUT_SHORT, row
        if size < 1 or size > batch_end - position:
            return TOO_LONG, row
        end = position + size
        time_delta, position = _varlong(data, position + 1, end)
        if position < 0:
            return CUT_SHORT, row
        offset_delta, position = _varint(data, position, end)
        if position < 0:
            return CUT_SHORT, row
        if offset_delta < next_delta or offset_delta > last_delta:
            return BAD_ORDER if 0 <= offset_delta < next_delta else BAD_OFFSET, row
        next_delta = offset_delta + 1
        if want & (WANT_KEYS | WANT_VALUES | WANT_HEADERS):
            code = _walk_fields(data, (position, end), want, rows, row)
            if code != DONE:
                return code, row
        if want & WANT_TIMES:
            micros, misfit = _micros(base_time, np.int64(0) if append_time else time_delta)
            if misfit:
                return BAD_TIME, row
            rows[ROW_MICROS, row] = micros
        offset = base_offset + offset_delta
        rows[ROW_OFFSET, row] = offset
        rows[ROW_SIZE, row] = size
        if start <= offset < stop:
            row += 1
        position = end
    return DONE if position == batch_end else LEFT_OVER, row


@compiled(THREE_NUMBERS, BYTES, TABLE, INT64S, TABLE)
def walk_records(data: Bytes, batches: Table, limits: Numbers, rows: Table) -> tuple[Number, Number, Number]:
    """Note where the records of the batches lie, those inside the limits, in order.

    `rows` must have a column for each record of all batches, unless there is only one batch: that ends with FULL.
    Returns (how it ended, index of the batch after the last whole one, number of rows of the whole ones). With FULL
    all rows are taken, and the batch holds the records that are left.
    """
    row = limits[LIMIT_ROW]
    for index in range(limits[LIMIT_BATCH], len(batches)):
        batch = batches[index]
        before = row
        # A start outside the data would be our own mistake; it must not become a read there.
        if batch[BATCH_START] < 0:
            code, row = _count_rows(batch, limits, rows, row)
        elif batch[BATCH_END] > len(data):
            code = CUT_SHORT
        else:
            code, row = _walk_batch(data, batch, limits, rows, row)
        if code == FULL:
            return code, index, row
        if code != DONE:
            batch[BATCH_ROWS] = 0
            return code, index, before
        batch[BATCH_ROWS] = row - before
    return np.int64(DONE), np.int64(len(batches)), row


@compiled(types.boolean, BYTES, INT64S, INT64S, TABLE)
def walk_record_headers(data: Bytes, positions: Numbers, counts: Numbers, headers: Table) -> bool:
    """Note where the names and values of the headers lie, of which each row has so many from its position on.

    `headers` has a column for each. Returns whether all are in the data, as `walk_records` has found them.
    """
    end = np.int64(len(data))
    following = np.int64(0)
    for row in range(len(counts)):
        position = positions[row]
        count = counts[row]
        if position < 0 or count > headers.shape[1] - following:
            return False
        for _ in range(count):
            for at in (HEADER_NAME_AT, HEADER_VALUE_AT):
                size, position = _varint(data, position, end)
                if position < 0 or size > end - position:
                    return False
                headers[at, following] = position
                headers[at + 1, following] = size
                if size > 0:
                    position += size
            following += 1
    return bool(following == headers.shape[1])
