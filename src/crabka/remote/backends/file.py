"""A directory as an object store: the same code as for buckets, on the disk of this machine.

Names and setting are those of LocalTieredStorage, which is the better choice for a directory; this one shows that the
engine of the object stores does the same.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from obstore.store import LocalStore

from crabka.ports import FileSystem
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.local import open_root
from crabka.remote.backends.object_store import ObjectStoreStorage
from crabka.remote.backends.transfer import UploadLimits
from crabka.remote.errors import RemoteBackendError
from crabka.vfs import OsFileSystem


def file_storage(
    fs: FileSystem | None = None, limits: UploadLimits | None = None, disk: FileSystem | None = None
) -> ObjectStoreStorage:
    """Return a storage in a directory of the operating system.

    `configure` takes `dir`, in which the tier is the directory kafka-tiered-storage. Local files are read through `fs`;
    the tier is always on the real disk, where obstore writes. `disk` makes it durable.
    """
    directory = OsFileSystem() if disk is None else disk

    def open_bucket(settings: Mapping[str, str], _fs: FileSystem) -> Bucket:
        root = open_root(directory, settings)
        return Bucket(LocalStore(root, automatic_cleanup=True), location=root, limits=limits)

    def make_durable(bucket: Bucket, keys: list[str]) -> None:
        """Sync a segment: obstore renames files that it did not sync."""
        try:
            for key in keys:
                _sync(directory, posixpath.join(bucket.location, key))
            directory.fsync_dir(posixpath.dirname(posixpath.join(bucket.location, keys[0])))
            directory.fsync_dir(bucket.location)
        except OSError as error:
            raise RemoteBackendError(f"cannot make {keys[0]} durable: {error}") from error

    return ObjectStoreStorage(open_bucket, fs, make_durable=make_durable)


def _sync(disk: FileSystem, path: str) -> None:
    file = disk.open(path)
    try:
        file.fsync()
    finally:
        file.close()
