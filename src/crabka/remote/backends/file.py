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
from crabka.remote.backends.source_files import index_sources
from crabka.remote.backends.transfer import UploadLimits
from crabka.remote.errors import RemoteBackendError
from crabka.remote.layout import object_path, partition_directory
from crabka.remote.segments import CustomMetadata, LogSegmentData, RemoteLogSegmentMetadata
from crabka.vfs import OsFileSystem


class FileRemoteStorage(ObjectStoreStorage):
    """Keeps segments in a directory of the operating system."""

    def __init__(self, fs: FileSystem | None = None, limits: UploadLimits | None = None) -> None:
        """Local files are read through `fs`; the tier is always on the real disk, where obstore writes."""
        super().__init__(fs)
        self._limits = limits
        self._disk: FileSystem = OsFileSystem()
        self._root = ""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take `dir`, in which the tier is the directory kafka-tiered-storage. Raises ConfigError."""
        self._root = open_root(self._disk, settings)
        store = LocalStore(self._root, automatic_cleanup=True)
        self._use(Bucket(store, location=self._root, limits=self._limits))

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment, durably: obstore renames files that it did not sync."""
        custom = super().copy_log_segment_data(metadata, data)
        try:
            self._sync(object_path(metadata))
            for index_type in index_sources(data):
                self._sync(object_path(metadata, index_type))
            self._disk.fsync_dir(posixpath.join(self._root, partition_directory(metadata.topic_id_partition)))
            self._disk.fsync_dir(self._root)
        except OSError as error:
            self.delete_log_segment_data(metadata)
            raise RemoteBackendError(f"cannot make {metadata.segment_id} durable: {error}") from error
        return custom

    def _sync(self, relative: str) -> None:
        file = self._disk.open(posixpath.join(self._root, relative))
        try:
            file.fsync()
        finally:
            file.close()
