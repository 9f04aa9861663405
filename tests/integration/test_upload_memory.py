"""An upload in parts holds a bounded part of the file in memory, however slow the store is."""

from __future__ import annotations

import threading

import pytest

from crabka.ports import File
from crabka.remote.backends.bucket import PIECE_BYTES
from crabka.remote.backends.s3 import S3Config
from crabka.remote.backends.transfer import HttpOptions, UploadLimits
from crabka.testing import MemoryFileSystem
from crabka.testing.memory_file_system import MemoryFile
from tests.support.wire.http_server import CannedAnswer, HttpRequest, ScriptedHttpServer

PART_BYTES = 5 << 20
PARTS = 11
IN_FLIGHT = 4


class _ReluctantS3:
    """Takes parts, and answers none before as many are waiting as a client may have on their way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._arrived = 0
        self.most_waiting = 0
        self.answered_bytes = 0

    def answer(self, request: HttpRequest) -> CannedAnswer:
        if request.method == "PUT":
            self._take_part(len(request.body))
            return CannedAnswer(200, headers={"ETag": '"part"'})
        if "uploads" in request.path:
            return CannedAnswer(
                200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            )
        return CannedAnswer(200, b'<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>')

    def _take_part(self, size: int) -> None:
        with self._changed:
            self._arrived += 1
            self._waiting += 1
            self.most_waiting = max(self.most_waiting, self._waiting)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting >= IN_FLIGHT or self._arrived >= PARTS - IN_FLIGHT, 60)
            if self._arrived == IN_FLIGHT:
                # One more would arrive now from a client that does not keep to the limit.
                self._changed.wait_for(lambda: self._waiting > IN_FLIGHT, 0.3)
            self._waiting -= 1
            self.answered_bytes += size


@pytest.mark.allow_leaks(reason="obstore keeps connections open for later requests")
def test_no_more_than_four_parts_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    file: File = fs.open("/log", create=True)
    file.truncate(PARTS * PART_BYTES)
    store = _ReluctantS3()
    ahead: list[int] = []
    pread = MemoryFile.pread

    def recording_pread(file: MemoryFile, length: int, position: int) -> bytes:
        ahead.append(position + length - store.answered_bytes)
        return pread(file, length, position)

    monkeypatch.setattr(MemoryFile, "pread", recording_pread)
    with ScriptedHttpServer(store.answer) as server:
        config = S3Config(
            bucket="tier",
            region="here",
            endpoint=server.endpoint,
            access_key_id="key",
            secret_access_key="secret",
            limits=UploadLimits(threshold_bytes=PART_BYTES, part_bytes=PART_BYTES),
            http=HttpOptions(allow_http=True),
        )
        config.open().put_file("log", file)
    assert store.answered_bytes == PARTS * PART_BYTES
    assert store.most_waiting == IN_FLIGHT
    assert IN_FLIGHT * PART_BYTES <= max(ahead) <= IN_FLIGHT * PART_BYTES + PIECE_BYTES
