"""A node's metadata directory, opened: log, snapshot content, identity. Blocking; called in threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.errors import ConfigError, CorruptDataError
from crabka.formats.file_names import BOOTSTRAP_SNAPSHOT
from crabka.formats.meta_properties import FILE_NAME as META_PROPERTIES
from crabka.formats.meta_properties import MetaProperties
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.log.dirs.meta_properties import read_meta_properties as maybe_read_meta_properties
from crabka.quorum.loading import LoadedMetadata, load_snapshot
from crabka.quorum.log.durable_end import read_durable_end
from crabka.quorum.log.metadata_log import DIRECTORY_NAME, MetadataLog
from crabka.quorum.log.survey import LogSurvey
from crabka.quorum.snapshots.files import read_snapshot, remove_partial_snapshots
from crabka.quorum.snapshots.set_aside import set_aside

if TYPE_CHECKING:
    from crabka.ports import FileSystem
    from crabka.quorum.settings import MetadataLogSettings

# Receives the newest snapshot, the survey of the log and the recorded durable end; raises to refuse them.
AcceptStorage = Callable[[LoadedMetadata, LogSurvey, OffsetAndEpoch | None], None]


@dataclass(slots=True)
class MetadataStorage:
    """The opened files below `metadata.log.dir`, and their loaded content."""

    fs: FileSystem
    metadata_dir: str
    directory: str
    settings: MetadataLogSettings
    properties: MetaProperties
    log: MetadataLog
    loaded: LoadedMetadata
    # Damaged snapshots that the start renamed.
    set_aside_count: int = 0

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        metadata_dir: str,
        settings: MetadataLogSettings,
        *,
        accept: AcceptStorage | None = None,
        now_ms: int,
    ) -> MetadataStorage:
        """Load the newest valid snapshot; the log after it is only opened, since some of it may be uncommitted.

        `accept` may refuse the log before anything is changed. Raises ConfigError for a directory
        that is not formatted, or was used by another cluster than `meta.properties` names.
        """
        properties = read_meta_properties(fs, metadata_dir)
        directory = f"{metadata_dir}/{DIRECTORY_NAME}"
        check_cluster_id(fs, metadata_dir, properties)
        fs.makedirs(directory)
        fs.fsync_dir(metadata_dir)
        remove_partial_snapshots(fs, directory)
        loaded = load_snapshot(fs, directory)
        start_offset, start_epoch = loaded.snapshot or (0, None)
        log = MetadataLog.open(
            fs,
            directory,
            settings,
            start_offset=start_offset,
            start_epoch=start_epoch,
            cluster_id=properties.cluster_id,
            accept=None if accept is None else functools.partial(accept, loaded),
            shown_end=max((each.end for each in loaded.damaged), key=lambda end: end.recency, default=None),
            now_ms=now_ms,
        )
        # Last: until the log fits the remaining files, the next start must find the same damage.
        set_aside(fs, directory, loaded.damaged)
        loaded.replay.publish()
        return cls(fs, metadata_dir, directory, settings, properties, log, loaded, len(loaded.damaged))

    def read_bootstrap(self) -> list[Any]:
        """Return the records of `bootstrap.checkpoint`. Raises ConfigError if a new cluster has none."""
        path = f"{self.metadata_dir}/{BOOTSTRAP_SNAPSHOT}"
        if not self.fs.exists(path):
            raise ConfigError(f"{path} is missing: format the directory first")
        try:
            return list(read_snapshot(self.fs, path).records)
        except CorruptDataError as error:
            raise CorruptDataError(
                path,
                f"{error.message}. A new cluster begins with this file: format the directory anew, or copy the file "
                "from another node of the cluster",
            ) from error

    def close(self) -> None:
        """Close the log cleanly."""
        self.log.close()


def check_cluster_id(fs: FileSystem, metadata_dir: str, properties: MetaProperties) -> None:
    """Refuse a directory with metadata of another cluster.

    Kafka keeps the cluster id in `meta.properties` only, so that a changed one is not detected on a node without peers.
    `crabka-durable-end` next to the metadata log has the id of the directory's first use. Raises ConfigError.
    """
    noted = read_durable_end(fs, f"{metadata_dir}/{DIRECTORY_NAME}")
    if noted is not None and noted.cluster_id and noted.cluster_id != properties.cluster_id:
        raise ConfigError(
            f"{metadata_dir}/{META_PROPERTIES} says cluster {properties.cluster_id}, but the metadata in it "
            f"is that of cluster {noted.cluster_id}: restore cluster.id, or accept the new one with "
            "`crabka quorum repair --accept-cluster-id --execute`"
        )


def read_meta_properties(fs: FileSystem, log_dir: str) -> MetaProperties:
    """Return the identity of a log dir. Raises ConfigError if it has none, CorruptDataError if it is malformed."""
    properties = maybe_read_meta_properties(fs, log_dir)
    if properties is None:
        raise ConfigError(f"{log_dir} is not formatted: {META_PROPERTIES} is missing")
    return properties
