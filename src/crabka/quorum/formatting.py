"""Formatting of log dirs, as `kafka-storage format` does it.

Each directory gets `bootstrap.checkpoint` with the feature levels of the new cluster and, last,
`meta.properties`: a directory counts as formatted only with that file. The metadata directory of a voter also gets
the snapshot `0-0` with kraft.version and the voters (KIP-853).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from crabka.config.listeners import controller_endpoints
from crabka.errors import ConfigError
from crabka.formats.file_names import BOOTSTRAP_SNAPSHOT
from crabka.formats.meta_properties import FILE_NAME as META_PROPERTIES
from crabka.formats.meta_properties import MetaProperties
from crabka.ids import uuid_to_text
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.metadata.bootstrap import feature_records
from crabka.metadata.features import (
    DEFAULT_FEATURE_LEVELS,
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, write_snapshot
from crabka.quorum.storage import read_meta_properties

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.ports import FileSystem, Runtime

STATIC_KRAFT = 0
LATEST_KRAFT = SUPPORTED_FEATURES[KRAFT_VERSION].max_version
# The metadata.version from which Kafka turns a feature on: 4.0-IV0, 4.0-IV2 and 4.1-IV0.
_ON_SINCE = {GROUP_VERSION: 22, TRANSACTION_VERSION: 24, ELR_VERSION: 26}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """The files to write. Without voters the node joins an existing or a static quorum."""

    cluster_id: str
    node_id: int
    log_dirs: Sequence[str]
    metadata_dir: str
    directory_ids: Mapping[str, UUID]
    voters: tuple[VoterNode, ...] = ()
    feature_levels: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_FEATURE_LEVELS))
    ignore_formatted: bool = False
    # Initial metadata of the new cluster, after the feature levels.
    records: Sequence[Any] = ()


def format_storage(
    runtime: Runtime,
    config: ServerConfig,
    cluster_id: str | None,
    *,
    standalone: bool = True,
    initial_controllers: Sequence[VoterNode] = (),
    features: Mapping[str, int] | None = None,
    records: Sequence[Any] = (),
    ignore_formatted: bool = False,
) -> list[str]:
    """Format the log dirs of a node; return those that were written. Formatted ones can be skipped.

    `standalone` makes this node the only voter; `initial_controllers` names the voters instead. With neither the node
    starts no quorum. `records` are further metadata of a new cluster. Without a cluster id that of the formatted
    directories is taken, else a new one.
    Raises ConfigError for a formatted directory, for one of another cluster or node, and for a feature level that does
    not exist.
    """
    plan = plan_format(
        runtime,
        config,
        cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        features=features,
        records=records,
        ignore_formatted=ignore_formatted,
    )
    return write_format(runtime.fs, plan, now_ms=runtime.clock.now_ms())


def plan_format(
    runtime: Runtime,
    config: ServerConfig,
    cluster_id: str | None,
    *,
    standalone: bool = True,
    initial_controllers: Sequence[VoterNode] = (),
    features: Mapping[str, int] | None = None,
    records: Sequence[Any] = (),
    ignore_formatted: bool = False,
) -> FormatPlan:
    """Return what `format_storage` would write, with the ids that the directories will have. Raises ConfigError."""
    dirs = list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))
    cluster_id = _agreed_cluster_id(runtime, config.node_id, dirs, cluster_id)
    ids = {directory: new_directory_id(runtime) for directory in dirs}
    voters = tuple(initial_controllers)
    mine = next((voter for voter in voters if voter.voter_id == config.node_id), None)
    if mine is not None:
        ids[config.metadata_log_dir] = mine.directory_id
    elif standalone and not voters:
        voters = (_own_voter(config, ids[config.metadata_log_dir]),)
    return FormatPlan(
        cluster_id=cluster_id,
        node_id=config.node_id,
        log_dirs=dirs,
        metadata_dir=config.metadata_log_dir,
        directory_ids=ids,
        voters=voters,
        feature_levels=resolve_features(features or {}, kraft_version=kraft_version_of(config)),
        ignore_formatted=ignore_formatted,
        records=records,
    )


def write_format(fs: FileSystem, plan: FormatPlan, *, now_ms: int) -> list[str]:
    """Carry out a plan; nothing is written if a directory is already formatted, unless such directories are ignored."""
    formatted = [directory for directory in plan.log_dirs if is_formatted(fs, directory)]
    if formatted and not plan.ignore_formatted:
        raise ConfigError(
            f"log directory {formatted[0]} is already formatted; "
            "use --ignore-formatted to ignore this directory and format the others"
        )
    todo = [directory for directory in plan.log_dirs if directory not in formatted]
    for directory in todo:
        _format_directory(fs, directory, plan, now_ms)
    return todo


def is_formatted(fs: FileSystem, directory: str) -> bool:
    """Return whether a log dir has an identity."""
    return fs.exists(f"{directory}/{META_PROPERTIES}")


def kraft_version_of(config: ServerConfig) -> int:
    """Return the level of kraft.version of a new quorum: 0 where the voters are fixed in the config."""
    return STATIC_KRAFT if config.controller_quorum_voters else LATEST_KRAFT


def resolve_features(overrides: Mapping[str, int], *, kraft_version: int = LATEST_KRAFT) -> dict[str, int]:
    """Return the levels of a new cluster with the operator's changes. Raises ConfigError for unknown ones.

    The level of kraft.version follows from the quorum and is not a record here; an operator may only confirm it.
    """
    levels = default_levels(overrides.get(METADATA_VERSION, DEFAULT_FEATURE_LEVELS[METADATA_VERSION]))
    for name, level in overrides.items():
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise ConfigError(f"unknown feature {name}; known are {', '.join(sorted(SUPPORTED_FEATURES))}")
        if not supported.min_version <= level <= supported.max_version:
            raise ConfigError(f"{name}={level}: supported are {supported.min_version} to {supported.max_version}")
        if name == KRAFT_VERSION:
            if level != kraft_version:
                why = "controller.quorum.voters is set" if kraft_version == STATIC_KRAFT else "the quorum is dynamic"
                raise ConfigError(f"{name}={level}: new directories are formatted with {kraft_version}, since {why}")
            continue
        levels[name] = level
    return levels


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the levels of a new cluster at a metadata.version: those of the release that it belongs to."""
    return {
        name: level
        for name, level in {**DEFAULT_FEATURE_LEVELS, METADATA_VERSION: metadata_version}.items()
        if metadata_version >= _ON_SINCE.get(name, 0)
    }


def parse_release_version(text: str) -> int:
    """Return the metadata.version of a release: `4.3-IV0`, or `4.3` for its newest. Raises ConfigError."""
    matches = [level for level, name in METADATA_VERSION_NAMES.items() if name == text or name.startswith(f"{text}-")]
    if not matches:
        raise ConfigError(f"unknown release version {text}; known are {', '.join(METADATA_VERSION_NAMES.values())}")
    return max(matches)


def new_directory_id(runtime: Runtime) -> UUID:
    """Return a random id whose text does not begin with a dash, which command lines would parse as an option."""
    while True:
        candidate = runtime.new_uuid()
        if not uuid_to_text(candidate).startswith("-"):
            return candidate


def new_cluster_id(runtime: Runtime) -> str:
    """Return a random cluster id, as `kafka-storage random-uuid` prints it."""
    return uuid_to_text(new_directory_id(runtime))


def _agreed_cluster_id(runtime: Runtime, node_id: int, dirs: Sequence[str], wanted: str | None) -> str:
    """Return the cluster id that new directories must have to match the formatted ones."""
    for directory in dirs:
        if not is_formatted(runtime.fs, directory):
            continue
        known = read_meta_properties(runtime.fs, directory)
        if known.node_id != node_id:
            raise ConfigError(f"{directory} belongs to node {known.node_id}, not to {node_id}")
        if wanted is not None and known.cluster_id != wanted:
            raise ConfigError(f"{directory} belongs to cluster {known.cluster_id}, not to {wanted}")
        wanted = known.cluster_id
    return wanted or new_cluster_id(runtime)


def _format_directory(fs: FileSystem, directory: str, plan: FormatPlan, now_ms: int) -> None:
    fs.makedirs(directory)
    if directory == plan.metadata_dir and plan.voters:
        metadata_log = f"{directory}/{DIRECTORY_NAME}"
        fs.makedirs(metadata_log)
        first = SnapshotId(0, 0)
        content = SnapshotContent((), last_timestamp=now_ms, kraft_version=LATEST_KRAFT, voters=plan.voters)
        write_snapshot(fs, f"{metadata_log}/{first.file_name}", content, epoch=first.epoch, now_ms=now_ms)
    bootstrap = SnapshotContent([*feature_records(plan.feature_levels), *plan.records])
    write_snapshot(fs, f"{directory}/{BOOTSTRAP_SNAPSHOT}", bootstrap, epoch=0, now_ms=now_ms)
    properties = MetaProperties(plan.cluster_id, plan.node_id, plan.directory_ids[directory])
    write_meta_properties(fs, directory, properties)
    fs.fsync_dir(directory.rpartition("/")[0] or ("/" if directory.startswith("/") else "."))


def _own_voter(config: ServerConfig, directory_id: UUID) -> VoterNode:
    endpoints = controller_endpoints(config)
    if not endpoints:
        raise ConfigError("a standalone node needs a controller listener: set controller.listener.names and listeners")
    # Like kafka-storage, which writes one endpoint; the node adds the others once it leads.
    first = endpoints[0]
    return VoterNode(config.node_id, directory_id, (VoterEndpoint(first.name, first.host, first.port),))
