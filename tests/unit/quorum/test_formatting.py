from __future__ import annotations

import contextlib
import dataclasses
import errno
import random
from typing import cast
from uuid import UUID

import pytest

from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.formats.meta_properties import decode_meta_properties
from crabka.ids import uuid_from_text, uuid_to_text
from crabka.ports import Clock, Network, Runtime, Threads
from crabka.quorum.formatting import (
    FormatPlan,
    default_levels,
    format_storage,
    is_formatted,
    kraft_version_of,
    new_cluster_id,
    new_directory_id,
    parse_release_version,
    resolve_features,
    write_format,
)
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.quorum.snapshots.files import SnapshotId, read_snapshot
from crabka.quorum.storage import read_meta_properties
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.recorded.files import GOLDEN

GUARD = "crabka-copy-of-meta.properties"


class _FixedClock:
    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> int:
        return 0

    def processor_ns(self) -> int:
        return 0


def _runtime(seed: int = 1) -> Runtime:
    fs = MemoryFileSystem()
    clock = cast("Clock", _FixedClock())
    return Runtime(clock, random.Random(seed), cast("Threads", None), fs, cast("Network", None))


def _config(**changes: str) -> ServerConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/d1,/d2",
    }
    return ServerConfig.from_properties(
        {**properties, **{key.replace("_", "."): value for key, value in changes.items()}}
    )[0]


def test_every_log_dir_gets_an_identity_and_one_the_voters() -> None:
    runtime = _runtime()
    assert format_storage(runtime, _config(), "cluster") == ["/d1", "/d2"]
    first, second = read_meta_properties(runtime.fs, "/d1"), read_meta_properties(runtime.fs, "/d2")
    assert (first.cluster_id, first.node_id) == ("cluster", 1)
    assert first.directory_id != second.directory_id
    voters = read_snapshot(runtime.fs, f"/d1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}").voters
    assert first.directory_id is not None
    assert voters == (VoterNode(1, first.directory_id, (VoterEndpoint("CONTROLLER", "localhost", 9093),)),)
    assert not runtime.fs.exists("/d2/__cluster_metadata-0")
    names = [record.name for record in read_snapshot(runtime.fs, "/d2/bootstrap.checkpoint").records]
    assert names == ["metadata.version", "eligible.leader.replicas.version", "group.version", "transaction.version"]


def test_the_files_are_those_of_kafka_storage() -> None:
    golden = GOLDEN / "quorum" / "just_formatted" / "c1"
    identity = decode_meta_properties((golden / "meta.properties").read_bytes())
    assert identity.directory_id is not None
    levels = {"metadata.version": 30, "group.version": 1, "share.version": 1, "streams.version": 1}
    levels |= {"transaction.version": 2, "eligible.leader.replicas.version": 1}
    fs = MemoryFileSystem()
    plan = FormatPlan(
        cluster_id=identity.cluster_id,
        node_id=1,
        log_dirs=["/c1"],
        metadata_dir="/c1",
        directory_ids={"/c1": identity.directory_id},
        voters=(VoterNode(1, identity.directory_id, (VoterEndpoint("CONTROLLER", "127.0.0.1", 29101),)),),
        feature_levels=levels,
    )
    write_format(fs, plan, now_ms=5)
    for name in ("bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"):
        assert fs.stat(f"/c1/{name}").size_bytes == (golden / name).stat().st_size
    assert fs.listdir("/c1") == ["__cluster_metadata-0", "bootstrap.checkpoint", GUARD, "meta.properties"]


def test_a_formatted_directory_is_refused_and_nothing_is_written() -> None:
    runtime = _runtime()
    format_storage(runtime, _config(log_dirs="/d1"), "cluster")
    with pytest.raises(ConfigError, match="/d1 is already formatted"):
        format_storage(runtime, _config(log_dirs="/d1,/d2"), "cluster")
    assert not is_formatted(runtime.fs, "/d2")


def test_formatted_directories_can_be_ignored() -> None:
    runtime = _runtime()
    format_storage(runtime, _config(log_dirs="/d1"), "cluster")
    before = read_meta_properties(runtime.fs, "/d1")
    assert format_storage(runtime, _config(log_dirs="/d1,/d2"), "cluster", ignore_formatted=True) == ["/d2"]
    assert read_meta_properties(runtime.fs, "/d1") == before


def test_a_new_directory_joins_the_cluster_of_the_others() -> None:
    runtime = _runtime()
    format_storage(runtime, _config(log_dirs="/d1"), None)
    known = read_meta_properties(runtime.fs, "/d1").cluster_id
    format_storage(runtime, _config(log_dirs="/d1,/d2"), None, ignore_formatted=True)
    assert read_meta_properties(runtime.fs, "/d2").cluster_id == known


def test_directories_of_another_cluster_or_node_are_refused() -> None:
    runtime = _runtime()
    format_storage(runtime, _config(log_dirs="/d1"), "cluster")
    with pytest.raises(ConfigError, match="belongs to cluster cluster, not to other"):
        format_storage(runtime, _config(log_dirs="/d1,/d2"), "other", ignore_formatted=True)
    with pytest.raises(ConfigError, match="belongs to node 1, not to 2"):
        format_storage(runtime, _config(log_dirs="/d1,/d2", node_id="2"), None, ignore_formatted=True)


def test_foreign_files_are_no_obstacle() -> None:
    runtime = _runtime()
    runtime.fs.makedirs("/d1/lost+found")
    assert format_storage(runtime, _config(log_dirs="/d1"), "cluster") == ["/d1"]


def test_initial_controllers_bring_their_directory_ids() -> None:
    runtime = _runtime()
    voters = [
        VoterNode(number, UUID(int=900 + number), (VoterEndpoint("CONTROLLER", "h", number),)) for number in (1, 2)
    ]
    format_storage(runtime, _config(), "cluster", initial_controllers=voters)
    assert read_meta_properties(runtime.fs, "/d1").directory_id == UUID(int=901)
    content = read_snapshot(runtime.fs, f"/d1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}")
    assert content.voters == tuple(voters)


def test_a_node_that_is_no_voter_knows_the_voters_too() -> None:
    runtime = _runtime()
    voters = [VoterNode(7, UUID(int=907), (VoterEndpoint("CONTROLLER", "h", 7),))]
    format_storage(runtime, _config(), "cluster", initial_controllers=voters)
    content = read_snapshot(runtime.fs, f"/d1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}")
    assert content.voters == tuple(voters)
    assert read_meta_properties(runtime.fs, "/d1").directory_id != UUID(int=907)


def test_a_standalone_voter_is_known_by_what_it_advertises() -> None:
    runtime = _runtime()
    config = _config(advertised_listeners="PLAINTEXT://out:9092,CONTROLLER://out:19093")
    format_storage(runtime, config, "cluster")
    content = read_snapshot(runtime.fs, f"/d1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}")
    assert content.voters[0].endpoints == (VoterEndpoint("CONTROLLER", "out", 19093),)


def test_without_voters_there_is_no_metadata_log_yet() -> None:
    runtime = _runtime()
    format_storage(runtime, _config(), "cluster", standalone=False)
    assert runtime.fs.listdir("/d1") == ["bootstrap.checkpoint", GUARD, "meta.properties"]


@pytest.mark.parametrize("operations", range(12))
def test_a_power_cut_leaves_a_directory_that_is_formatted_whole_or_can_be(operations: int) -> None:
    disk = MemoryFileSystem()
    runtime = _runtime()
    faulty = FaultyFileSystem(disk)
    for operation in ("open", "pwritev", "fsync", "rename", "fsync_dir"):
        faulty.add(FaultRule(operation=operation, skip=operations, error=errno.EIO))
    with contextlib.suppress(OSError):
        format_storage(dataclasses.replace(runtime, fs=faulty), _config(log_dirs="/d1"), "cluster")
    disk.crash(random.Random(operations))
    if not is_formatted(disk, "/d1"):
        format_storage(dataclasses.replace(runtime, fs=disk), _config(log_dirs="/d1"), "cluster")
    assert read_snapshot(disk, f"/d1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}").kraft_version == 1
    assert len(read_snapshot(disk, "/d1/bootstrap.checkpoint").records) == 4
    assert read_meta_properties(disk, "/d1").cluster_id == "cluster"


def test_features_can_be_chosen() -> None:
    levels = resolve_features({"group.version": 0, "share.version": 1, "kraft.version": 1})
    assert (levels["group.version"], levels["share.version"]) == (0, 1)
    assert "kraft.version" not in levels


@pytest.mark.parametrize(
    ("feature", "level", "message"),
    [
        ("nonsense", 1, "unknown feature nonsense"),
        ("metadata.version", 31, "supported are 7 to 30"),
        ("kraft.version", 0, "formatted with 1"),
    ],
)
def test_features_that_do_not_exist_are_named(feature: str, level: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_features({feature: level})


@pytest.mark.parametrize(
    ("release", "others"),
    [
        ("3.9", {}),
        ("4.0-IV1", {"group.version": 1}),
        ("4.0", {"group.version": 1, "transaction.version": 2}),
        ("4.1", {"group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1}),
    ],
)
def test_an_older_release_has_the_features_of_its_time(release: str, others: dict[str, int]) -> None:
    level = parse_release_version(release)
    assert resolve_features({"metadata.version": level}) == {"metadata.version": level, **others}
    assert default_levels(level)["metadata.version"] == level


def test_a_static_quorum_has_the_first_kraft_version() -> None:
    static = _config(controller_quorum_voters="1@127.0.0.1:9093")
    assert (kraft_version_of(static), kraft_version_of(_config())) == (0, 1)
    assert "kraft.version" not in resolve_features({"kraft.version": 0}, kraft_version=0)
    with pytest.raises(ConfigError, match=r"formatted with 0, since controller\.quorum\.voters is set"):
        resolve_features({"kraft.version": 1}, kraft_version=0)


def test_release_versions() -> None:
    assert parse_release_version("4.3-IV0") == 30
    assert parse_release_version("4.0") == 25
    with pytest.raises(ConfigError, match="unknown release version 9"):
        parse_release_version("9")


def test_ids_never_begin_with_a_dash() -> None:
    runtime = _runtime()
    texts = [uuid_to_text(new_directory_id(runtime)) for _ in range(1000)]
    assert not [text for text in texts if text.startswith("-")]
    assert uuid_from_text(new_cluster_id(runtime)).version == 4
