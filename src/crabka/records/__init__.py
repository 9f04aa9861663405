"""Record batches of format v2: headers, records, compression and control records. Pure: no input or output."""

from __future__ import annotations

from crabka.records.builder import RecordLike, build_batch
from crabka.records.compression import compress, decompress
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError
from crabka.records.header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    crc_valid,
    iter_headers,
    parse_header,
    patched_prefix,
)
from crabka.records.record import Record, decode_records

__all__ = [
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "BatchHeader",
    "CorruptBatchError",
    "Record",
    "RecordLike",
    "UnsupportedCompressionError",
    "build_batch",
    "compress",
    "crc_valid",
    "decode_records",
    "decompress",
    "iter_headers",
    "parse_header",
    "patched_prefix",
]
