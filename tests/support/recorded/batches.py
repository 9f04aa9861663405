"""Batches out of the log files that Apache Kafka 4.3.0 wrote."""

from __future__ import annotations

from collections.abc import Iterator

from crabka.records.header import iter_headers
from tests.support.recorded.files import GOLDEN


def batches_in(data: bytes) -> Iterator[bytes]:
    """Yield the batches of a whole log file, which must have no bytes left over."""
    end = 0
    for position, header in iter_headers(data):
        end = position + header.size_in_bytes
        yield data[position:end]
    assert end == len(data), "the log file ends within a batch"


def golden_batches(directory: str = "*") -> Iterator[bytes]:
    """Yield the batches of the single-node log dirs, of one partition or of all, in offset order."""
    paths = sorted((GOLDEN / "single").glob(f"d?/{directory}/*.log"))
    assert paths, f"no golden log for {directory}"
    for path in paths:
        yield from batches_in(path.read_bytes())
