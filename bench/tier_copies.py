"""`python -m bench.tier_copies <kind> <settings> <bytes> <directory>`: copies of a segment, in a process of their own.

Ours and the plain upload of the same file take turns. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import obstore
from obstore.store import LocalStore, S3Store

from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.backends.s3 import s3_storage
from crabka.remote.segments import LogSegmentData, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from crabka.remote.storage_manager import RemoteStorageManager

WARM_BYTES = 8 << 20
_WRITE_BYTES = 8 << 20
_SMALL = b"content of an index " * 500


def plain_s3_store(settings: Mapping[str, str]) -> S3Store:
    """The store of a bucket, with nothing but what is needed to get in."""
    return S3Store(
        settings["bucket"],
        config={
            "endpoint": settings["endpoint"],
            "region": settings["region"],
            "access_key_id": settings["access.key.id"],
            "secret_access_key": settings["secret.access.key"],
        },
        client_options={"allow_http": True},
    )


def write_files(directory: Path, size_bytes: int) -> LogSegmentData:
    """Write a segment with its indexes."""
    directory.mkdir(parents=True)
    names = ("log", "index", "timeindex", "snapshot")
    for name in names[1:]:
        (directory / name).write_bytes(_SMALL)
    block = os.urandom(_WRITE_BYTES)
    with (directory / "log").open("wb") as file:
        for _ in range(0, size_bytes, _WRITE_BYTES):
            file.write(block)
        file.truncate(size_bytes)
        # Else the disk is busy with this file while the first copies of it are measured.
        file.flush()
        os.fsync(file.fileno())
    log, index, timeindex, snapshot = (str(directory / name) for name in names)
    return LogSegmentData(
        log_segment=log,
        offset_index=index,
        time_index=timeindex,
        producer_snapshot_index=snapshot,
        leader_epoch_index=b"0\n1\n0 0\n",
    )


def metadata_of(size_bytes: int) -> RemoteLogSegmentMetadata:
    """The metadata of a new segment."""
    partition = TopicIdPartition(uuid.UUID(int=0xBE7C), "copied", 0)
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.uuid4()),
        start_offset=0,
        end_offset=999,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_bytes=size_bytes,
        leader_epochs=((0, 0),),
        txn_index_empty=True,
    )


def copy(storage: RemoteStorageManager, data: LogSegmentData, size_bytes: int) -> float:
    """Copy a segment and delete it again; returns the seconds of the copy."""
    metadata = metadata_of(size_bytes)
    begin = time.perf_counter()
    storage.copy_log_segment_data(metadata, data)
    seconds = time.perf_counter() - begin
    storage.delete_log_segment_data(metadata)
    return seconds


def upload_to_s3(store: S3Store, path: Path) -> float:
    """Upload a file in parts as obstore does by default, and delete it again; returns the seconds of the upload."""
    begin = time.perf_counter()
    with path.open("rb") as file:
        obstore.put(store, "plain", file, use_multipart=True)
    seconds = time.perf_counter() - begin
    obstore.delete(store, "plain")
    return seconds


def upload_to_directory(root: Path, path: Path) -> float:
    """Do the same with a directory as the store, and sync what was written as every tier has to."""
    store = LocalStore(root, mkdir=True)
    begin = time.perf_counter()
    with path.open("rb") as file:
        obstore.put(store, "plain", file, use_multipart=True)
    with (root / "plain").open("rb") as stored:
        os.fsync(stored.fileno())
    seconds = time.perf_counter() - begin
    obstore.delete(store, "plain")
    return seconds


@contextmanager
def peak_growth() -> Iterator[Callable[[], float]]:
    """Tell by how many megabytes the resident memory of this process grew in the block, at its peak."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status_bytes("VmRSS")
    yield lambda: (_status_bytes("VmHWM") - before) / 1e6


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def measured(
    storage: RemoteStorageManager, plain: Callable[[Path], float], size_bytes: int, directory: Path
) -> dict[str, float]:
    """Warm up, then let both copy in turn; each is the first once, so that a drift of the machine hits both."""
    warm = write_files(directory / "warm", WARM_BYTES)
    data = write_files(directory / "segment", size_bytes)
    copy(storage, warm, WARM_BYTES)
    plain(Path(warm.log_segment))
    source = Path(data.log_segment)
    with peak_growth() as grown:
        ours = [copy(storage, data, size_bytes)]
        memory = grown()
    theirs = [plain(source), plain(source)]
    ours.append(copy(storage, data, size_bytes))
    total = len(ours) * size_bytes / 1e6
    rates = {"rate": total / sum(ours), "plain_rate": total / sum(theirs)}
    return {**rates, "of_plain": sum(theirs) / sum(ours), "memory": memory}


def main(kind: str, settings_text: str, size: str, directory: str) -> None:
    """Measure one kind of tier."""
    settings: dict[str, str] = json.loads(settings_text)
    where = Path(directory)
    storage: RemoteStorageManager
    if kind == "s3":
        storage = s3_storage()
        plain = partial(upload_to_s3, plain_s3_store(settings))
    else:
        storage = LocalTieredStorage()
        plain = partial(upload_to_directory, where / "plain")
    storage.configure(settings)
    try:
        print(json.dumps(measured(storage, plain, int(size), where)))
    finally:
        storage.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
