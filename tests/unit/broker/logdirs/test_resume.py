"""What a start makes of moves that were interrupted."""

from __future__ import annotations

import errno
import uuid

import pytest

from crabka.broker.logdirs.move_journal import MoveMarker, find_markers, marker_path, write_marker
from crabka.broker.logdirs.resume import MoveResolution
from crabka.errors import StorageError
from crabka.ids import TopicPartition
from crabka.log.dirs.log_dir import LogDir, LogDirContent
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem

TP = TopicPartition("t", 0)
FUTURE = f"t-0.{'a' * 32}-future"
OTHER_FUTURE = f"t-0.{'b' * 32}-future"
IDS = {"/d1": uuid.UUID(int=101), "/d2": uuid.UUID(int=102)}
SEGMENT = "00000000000000000000.log"


class Scene:
    """Two log dirs and what the metadata say."""

    def __init__(self, assigned: str | None = None, *, dir_count: int = 2) -> None:
        self.fs = MemoryFileSystem()
        for path in IDS:
            self.fs.makedirs(path)
        self.fs.fsync_dir("/")
        self.resolution = MoveResolution(
            fs=self.fs,
            directory_id=IDS.get,
            assigned=lambda _tp: IDS.get(assigned or ""),
            new_uuid=lambda: uuid.UUID(int=77),
            dir_count=dir_count,
        )

    def log(self, path: str, size: int = 0) -> None:
        self.fs.makedirs(path)
        file = self.fs.open(f"{path}/{SEGMENT}", create=True)
        file.truncate(size)
        file.fsync()
        file.close()
        self.fs.fsync_dir(path)

    def mark(self, log_dir: str) -> None:
        write_marker(self.fs, marker_path(log_dir, uuid.UUID(int=3)), MoveMarker(TP, None, None, None, FUTURE))

    def contents(self) -> dict[str, LogDirContent]:
        for path in IDS:
            self.fs.fsync_dir(path)
        return {path: LogDir(self.fs, path).scan() for path in IDS}

    def settle(self) -> dict[str, LogDirContent]:
        contents = self.contents()
        self.resolution.settle(contents)
        # What was decided is durable.
        self.fs.crash()
        assert not any(find_markers(self.fs, path) for path in IDS)
        return contents


def places(contents: dict[str, LogDirContent]) -> list[str]:
    return [path for path, content in contents.items() if TP in content.logs]


@pytest.mark.parametrize("assigned", ["/d2", None])
@pytest.mark.parametrize("target", ["/d1", "/d2"])
def test_the_marker_decides_between_two_copies(assigned: str | None, target: str) -> None:
    scene = Scene(target if assigned else None)
    scene.log("/d1/t-0")
    scene.log("/d2/t-0")
    scene.mark(target)
    contents = scene.settle()
    (source,) = set(IDS) - {target}
    assert places(contents) == [target]
    assert contents[source].doomed == [f"{source}/t-0.{uuid.UUID(int=77).hex}-delete"]
    assert not scene.fs.exists(f"{source}/t-0")


def test_a_replica_that_went_on_in_the_source_stays_there() -> None:
    scene = Scene("/d1")
    scene.log("/d1/t-0")
    scene.log("/d2/t-0")
    scene.mark("/d2")
    assert places(scene.settle()) == ["/d1"]


@pytest.mark.parametrize("assigned", ["/d1", "/d2"])
def test_without_a_marker_the_metadata_decide_and_nothing_is_removed(assigned: str) -> None:
    scene = Scene(assigned)
    scene.log("/d1/t-0")
    scene.log("/d2/t-0")
    contents = scene.settle()
    (other,) = set(IDS) - {assigned}
    assert places(contents) == [assigned]
    assert contents[other].doomed == []
    assert scene.fs.exists(f"{other}/t-0.{uuid.UUID(int=77).hex}-stray")


@pytest.mark.parametrize("longer", ["/d1", "/d2"])
def test_without_either_the_longer_log_counts(longer: str) -> None:
    scene = Scene()
    for path in IDS:
        scene.log(f"{path}/t-0", 10 if path == longer else 5)
    assert places(scene.settle()) == [longer]


def test_a_copy_without_its_final_name_is_gone_on_with() -> None:
    scene = Scene("/d2")
    scene.log("/d1/t-0")
    scene.log(f"/d2/{FUTURE}")
    scene.mark("/d2")
    contents = scene.settle()
    assert places(contents) == ["/d1"]
    assert contents["/d2"].futures == {TP: [f"/d2/{FUTURE}"]}


def test_a_swap_that_was_done_but_for_its_marker_stays_done() -> None:
    scene = Scene("/d2")
    scene.log("/d2/t-0")
    scene.mark("/d2")
    assert places(scene.settle()) == ["/d2"]


def test_a_lone_copy_where_the_metadata_place_the_replica_becomes_the_log() -> None:
    scene = Scene("/d2")
    scene.log(f"/d2/{FUTURE}", 5)
    contents = scene.settle()
    assert contents["/d2"].logs == {TP: "/d2/t-0"}
    assert not contents["/d2"].clean
    assert scene.fs.listdir("/d2/t-0") == [SEGMENT]
    assert contents["/d2"].futures == {TP: []}


@pytest.mark.parametrize("longer", [FUTURE, OTHER_FUTURE])
def test_of_two_lone_copies_the_longer_becomes_the_log(longer: str) -> None:
    scene = Scene("/d2")
    for name in (FUTURE, OTHER_FUTURE):
        scene.log(f"/d2/{name}", 10 if name == longer else 5)
    contents = scene.settle()
    assert scene.fs.stat(f"/d2/t-0/{SEGMENT}").size_bytes == 10
    [left] = contents["/d2"].futures[TP]
    assert left == f"/d2/{FUTURE if longer == OTHER_FUTURE else OTHER_FUTURE}"


def test_while_a_dir_is_missing_the_replica_is_taken_to_be_there() -> None:
    scene = Scene("/d2", dir_count=3)
    scene.log(f"/d2/{FUTURE}")
    contents = scene.settle()
    assert places(contents) == []
    assert scene.resolution.withheld == {TP}


def test_a_log_that_is_placed_in_a_dir_that_is_missing_is_left_alone() -> None:
    scene = Scene("/d2", dir_count=2)
    scene.log("/d1/t-0")
    contents = scene.contents()
    del contents["/d2"]
    scene.resolution.settle(contents)
    assert (places(contents), scene.resolution.withheld) == ([], {TP})
    assert scene.fs.exists("/d1/t-0")
    # With all dirs at hand it is the replica, wherever the metadata placed it.
    assert places(scene.settle()) == ["/d1"]
    assert scene.resolution.withheld == set()


def test_a_lone_copy_elsewhere_is_nothing() -> None:
    scene = Scene("/d1")
    scene.log(f"/d2/{FUTURE}")
    contents = scene.settle()
    assert (places(contents), scene.resolution.withheld) == ([], set())


def test_a_dir_that_fails_is_named() -> None:
    scene = Scene("/d2")
    scene.log("/d1/t-0")
    scene.log("/d2/t-0")
    contents = scene.contents()
    scene.resolution.fs = FaultyFileSystem(scene.fs, [FaultRule(operation="rename", error=errno.EIO)])
    with pytest.raises(StorageError) as raised:
        scene.resolution.settle(contents)
    assert raised.value.log_dir == "/d1"
    # Without that dir all is well.
    del contents["/d1"]
    scene.resolution.fs = scene.fs
    scene.resolution.settle(contents)
    assert places(contents) == ["/d2"]
