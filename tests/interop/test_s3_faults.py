"""The S3 storage when the network or the server misbehaves: a real S3 server behind a proxy that does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.backends.s3 import s3_storage
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.testing import MemoryFileSystem
from tests.support.tiers.segments import LocalSegment, stored_contents, write_segment
from tests.support.tiers.versitygw import ACCESS_KEY, SECRET_KEY, VersityGateway
from tests.support.wire.http_server import CannedAnswer, FaultyProxy, HttpFault

# The first run builds the server.
pytestmark = pytest.mark.timeout(1500)

MIB = 1 << 20
SLOW_DOWN = CannedAnswer(503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>")
THROTTLED = CannedAnswer(429, b"<Error><Code>TooManyRequests</Code><Message>Not so fast.</Message></Error>")
BROKEN = CannedAnswer(500, b"<Error><Code>InternalError</Code><Message>Something broke.</Message></Error>")
HURRIED = {"retry_max": "3", "retry_backoff_ms": "1", "retry_backoff_max_ms": "5"}
IN_PARTS = {"multipart_threshold_bytes": str(5 * MIB), "multipart_part_bytes": str(5 * MIB)}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def proxy(gateway: VersityGateway) -> Iterator[FaultyProxy]:
    with FaultyProxy(gateway.port) as running:
        yield running
    assert gateway.unfinished_uploads() == []
    assert gateway.keys() == set()


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def segment(fs: MemoryFileSystem) -> LocalSegment:
    return write_segment(fs, "/local", log=bytes(range(256)) * 4096 * 15)


@pytest.fixture
def storage(gateway: VersityGateway, proxy: FaultyProxy, fs: MemoryFileSystem) -> Iterator[ObjectStoreStorage]:
    storage = s3_storage(fs)
    storage.configure(gateway.storage_settings(endpoint=proxy.endpoint, **HURRIED, **IN_PARTS))
    yield storage
    storage.close()


def copy(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)


def clear(storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment) -> None:
    proxy.faults.clear()
    storage.delete_log_segment_data(segment.metadata)


@pytest.mark.parametrize("answer", [SLOW_DOWN, THROTTLED, BROKEN, None], ids=["503", "429", "500", "dropped"])
def test_a_request_that_fails_for_a_moment_is_sent_again(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment, answer: CannedAnswer | None
) -> None:
    faults = [
        proxy.add(HttpFault(method="PUT", path="partNumber=2", times=2, answer=answer)),
        proxy.add(HttpFault(method="PUT", path=".timeindex", times=2, answer=answer)),
        proxy.add(HttpFault(method="HEAD", times=1, answer=answer)),
        proxy.add(HttpFault(method="GET", times=2, answer=answer)),
    ]
    copy(storage, segment)
    assert stored_contents(storage, segment) == segment.contents
    assert [fault.hits for fault in faults] == [2, 2, 1, 2]
    clear(storage, proxy, segment)


@pytest.mark.parametrize(
    ("answer", "reported"), [(SLOW_DOWN, "SlowDown"), (THROTTLED, "TooManyRequests"), (BROKEN, "500")]
)
def test_a_store_that_keeps_refusing_is_reported_and_may_be_tried_later(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment, answer: CannedAnswer, reported: str
) -> None:
    fault = proxy.add(HttpFault(answer=answer))
    for action in (
        lambda: copy(storage, segment),
        lambda: storage.fetch_log_segment(segment.metadata, 0),
        lambda: storage.fetch_index(segment.metadata, IndexType.OFFSET),
        lambda: storage.delete_log_segment_data(segment.metadata),
    ):
        with pytest.raises(RemoteBackendError, match=reported) as failure:
            action()
        assert failure.value.retriable
        assert SECRET_KEY not in str(failure.value)
        assert ACCESS_KEY not in str(failure.value)
    assert fault.hits > 4  # it was retried before it was reported
    proxy.faults.clear()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", ".snapshot"),
        ("POST", "?uploads"),
        ("PUT", "partNumber=1&"),
        ("PUT", "partNumber=3&"),
        ("POST", "uploadId"),
        ("HEAD", ".log"),
    ],
)
def test_whatever_step_of_a_copy_fails_nothing_stays(
    storage: ObjectStoreStorage,
    proxy: FaultyProxy,
    segment: LocalSegment,
    gateway: VersityGateway,
    method: str,
    path: str,
) -> None:
    fault = proxy.add(HttpFault(method=method, path=path, answer=BROKEN))
    with pytest.raises(RemoteBackendError):
        copy(storage, segment)
    assert fault.hits
    assert gateway.keys() == set()
    assert gateway.unfinished_uploads() == []
    proxy.faults.clear()
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_index(segment.metadata, IndexType.OFFSET)
    copy(storage, segment)
    assert stored_contents(storage, segment) == segment.contents
    clear(storage, proxy, segment)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", ".timeindex"), ("PUT", "partNumber=2&"), ("POST", "uploadId"), ("HEAD", ".log")]
)
def test_what_was_done_although_its_answer_was_lost_counts(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment, method: str, path: str
) -> None:
    fault = proxy.add(HttpFault(method=method, path=path, times=1, lose_answer=True))
    copy(storage, segment)
    assert fault.hits == 1
    assert stored_contents(storage, segment) == segment.contents
    clear(storage, proxy, segment)


def test_an_aborted_upload_is_an_error_to_be_retried(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    gone = CannedAnswer(404, b"<Error><Code>NoSuchUpload</Code><Message>It is gone.</Message></Error>")
    proxy.add(HttpFault(method="POST", path="uploadId", answer=gone))
    with pytest.raises(RemoteBackendError, match="is not in s3://tier after it was written") as failure:
        copy(storage, segment)
    assert failure.value.retriable


def test_a_part_that_fails_in_the_middle_of_a_long_upload_takes_the_others_with_it(
    storage: ObjectStoreStorage, proxy: FaultyProxy, fs: MemoryFileSystem
) -> None:
    segment = write_segment(fs, "/local", log=b"0123456789abcdef" * (42 << 16))
    proxy.add(HttpFault(method="PUT", path="partNumber=2&", answer=BROKEN))
    with pytest.raises(RemoteBackendError, match="InternalError"):
        copy(storage, segment)
    assert not proxy.seen("PUT", "partNumber=9&")  # the rest was not even sent


def test_a_deletion_that_fails_half_way_leaves_no_log_and_is_finished_by_the_next(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    copy(storage, segment)
    proxy.add(HttpFault(method="POST", path="?delete", skip=1, answer=BROKEN))
    with pytest.raises(RemoteBackendError):
        storage.delete_log_segment_data(segment.metadata)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, 0)
    assert storage.fetch_index(segment.metadata, IndexType.OFFSET)
    clear(storage, proxy, segment)


def test_an_answer_that_breaks_off_is_fetched_again(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    copy(storage, segment)
    fault = proxy.add(HttpFault(method="GET", path=".log", times=2, cut_to=100_000))
    assert storage.fetch_log_segment(segment.metadata, 5, 3_000_000) == segment.log[5:3_000_001]
    assert fault.hits == 2
    clear(storage, proxy, segment)


def test_answers_that_always_break_off_are_an_error_and_no_short_read(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    copy(storage, segment)
    proxy.add(HttpFault(method="GET", path=".log", cut_to=0))
    with pytest.raises(RemoteBackendError) as failure:
        storage.fetch_log_segment(segment.metadata, 0)
    assert failure.value.retriable
    clear(storage, proxy, segment)


def test_an_object_that_was_stored_short_is_refused(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    short = CannedAnswer(200, headers={"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "ETag": '"x"'}, length=17)
    proxy.add(HttpFault(method="HEAD", path=".log", answer=short))
    with pytest.raises(RemoteBackendError, match="has 17 bytes, but 15728640 were written"):
        copy(storage, segment)


def test_a_store_that_answers_too_slowly_is_given_up(
    gateway: VersityGateway, proxy: FaultyProxy, fs: MemoryFileSystem, segment: LocalSegment
) -> None:
    patience = {"request_timeout_ms": "200", "retry_max": "1", "retry_backoff_ms": "1"}
    storage = s3_storage(fs)
    storage.configure(gateway.storage_settings(endpoint=proxy.endpoint, **patience))
    never = threading.Event()
    proxy.add(HttpFault(method="GET", wait_for=never))
    with pytest.raises(RemoteBackendError, match=r"time|error sending request") as failure:
        storage.fetch_log_segment(segment.metadata, 0)
    assert failure.value.retriable
    never.set()
    storage.close()


def test_requests_go_to_the_key_and_to_nothing_else(
    storage: ObjectStoreStorage, proxy: FaultyProxy, segment: LocalSegment
) -> None:
    copy(storage, segment)
    proxy.requests.clear()
    storage.fetch_log_segment(segment.metadata, 100, 199)
    (request,) = proxy.requests
    assert (request.method, request.path) == ("GET", f"/tier/{object_path(segment.metadata)}")
    assert {name.lower(): value for name, value in request.headers.items()}["range"] == "bytes=100-199"
    clear(storage, proxy, segment)
