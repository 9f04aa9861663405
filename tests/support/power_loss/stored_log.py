"""A partition's directory on the simulated disk, decoded from its bytes alone."""

from __future__ import annotations

from typing import NamedTuple

from crabka.formats.offset_index import OffsetIndex
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.recovery.replay import replay_batch
from crabka.ports import FileSystem
from crabka.records.header import BatchHeader, crc_valid, iter_headers
from crabka.records.record import Record, decode_records
from crabka.vfs import read_file


class BatchOnDisk(NamedTuple):
    """A batch where it lies."""

    header: BatchHeader
    data: bytes


class StoredLog:
    """The batches of a log directory. `flaws` says in words what is wrong with the files."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.batches: list[BatchOnDisk] = []
        self.flaws: list[str] = []
        self._fs = fs
        self._path = path
        self.base_offset = -1
        self._end = -1
        for name in fs.listdir(path):
            if name.endswith(".log"):
                self._read_segment(name.removesuffix(".log"))

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch, the base of the last segment if that is empty."""
        return self._end

    def records(self) -> list[Record]:
        """Return all records, those below the log start included."""
        return [record for batch in self.batches for record in decode_records(batch.data, batch.header)]

    def producer_state(self) -> ProducerStateManager:
        """Return the producer state that the batches alone give."""
        state = ProducerStateManager()
        for batch in self.batches:
            if batch.header.producer_id >= 0:
                replay_batch(state, batch.data, batch.header)
        return state

    def _read_segment(self, stem: str) -> None:
        base = int(stem)
        if self.base_offset < 0:
            self.base_offset = base
        elif base != self._end:
            self.flaws.append(f"segment {stem} follows offset {self._end}")
        self._end = base
        data = read_file(self._fs, f"{self._path}/{stem}.log")
        ends: dict[int, int] = {}
        position = 0
        for position, header in iter_headers(data):
            if not crc_valid(data, position, header):
                self.flaws.append(f"the batch at {stem}.log:{position} is torn")
                return
            if header.base_offset != self._end:
                self.flaws.append(f"offset {header.base_offset} at {stem}.log:{position} follows {self._end}")
            ends[position] = header.last_offset
            self._end = header.next_offset
            size = header.size_in_bytes
            self.batches.append(BatchOnDisk(header, data[position : position + size]))
            position += size
        if position != len(data):
            self.flaws.append(f"{stem}.log ends with {len(data) - position} bytes that are no batch")
        self._check_index(stem, base, ends)

    def _check_index(self, stem: str, base: int, ends: dict[int, int]) -> None:
        path = f"{self._path}/{stem}.index"
        if not self._fs.exists(path):
            return
        data = OffsetIndex.decode(base, read_file(self._fs, path)).encode()
        for start in range(0, len(data), 8):
            offset = base + int.from_bytes(data[start : start + 4], "big")
            position = int.from_bytes(data[start + 4 : start + 8], "big")
            if ends.get(position) != offset:
                self.flaws.append(f"{stem}.index sends offset {offset} to {position}, where {ends.get(position)} ends")
