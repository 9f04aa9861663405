from __future__ import annotations

import uuid

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.meta_properties import heal_meta_properties, read_meta_properties, write_meta_properties
from crabka.testing import MemoryFileSystem
from crabka.vfs import OsFileSystem, read_file, write_atomic
from tests.support.recorded.files import GOLDEN


def test_identity_survives_a_crash() -> None:
    fs = MemoryFileSystem()
    properties = MetaProperties("cluster", 7, uuid.UUID(int=99))
    write_meta_properties(fs, "/", properties)
    fs.crash()
    assert read_meta_properties(fs, "/") == properties


def test_kafkas_file_is_read() -> None:
    found = read_meta_properties(OsFileSystem(), str(GOLDEN / "single/d1"))
    assert found is not None
    assert (found.cluster_id, found.node_id) == ("GoldenSingleClusterId0", 1)


def test_an_unformatted_dir_has_no_identity() -> None:
    assert read_meta_properties(MemoryFileSystem(), "/") is None


def test_damage_is_reported_with_the_path() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    write_atomic(fs, "/data/meta.properties", b"\xff\xfe")
    with pytest.raises(CorruptDataError, match=r"/data/meta\.properties"):
        read_meta_properties(fs, "/data")


@pytest.mark.parametrize("position", [3, 14, 30])
def test_rot_does_not_change_the_identity(position: int) -> None:
    fs = MemoryFileSystem()
    properties = MetaProperties("cluster", 7, uuid.UUID(int=99))
    write_meta_properties(fs, "/", properties)
    fs.rot("/meta.properties", position)
    assert read_meta_properties(fs, "/") == properties
    found, reason = heal_meta_properties(fs, "/")
    assert found == properties
    assert "/meta.properties: its bytes have changed" in reason
    assert heal_meta_properties(fs, "/") == (properties, "")


def test_a_file_of_kafka_gets_a_copy_once_it_is_read_by_its_owner() -> None:
    fs = MemoryFileSystem()
    content = (GOLDEN / "single/d1/meta.properties").read_bytes()
    write_atomic(fs, "/meta.properties", content)
    found, reason = heal_meta_properties(fs, "/")
    assert (found, reason) == (read_meta_properties(fs, "/"), "")
    fs.rot("/meta.properties", content.index(b"directory.id=") + 13)
    assert heal_meta_properties(fs, "/")[0] == found
    assert read_file(fs, "/meta.properties") == content


def test_an_edited_file_is_the_identity_and_a_malformed_one_does_not_replace_the_copy() -> None:
    now_ms = 1
    fs = MemoryFileSystem(now_ms=lambda: now_ms)
    write_meta_properties(fs, "/", MetaProperties("cluster", 7, None))
    copy = read_file(fs, "/crabka-copy-of-meta.properties")
    now_ms = 2
    write_atomic(fs, "/meta.properties", b"version=1\ncluster.id=cluster\n")
    with pytest.raises(CorruptDataError, match=r"node\.id is missing"):
        heal_meta_properties(fs, "/")
    assert read_file(fs, "/crabka-copy-of-meta.properties") == copy
    write_atomic(fs, "/meta.properties", b"version=1\ncluster.id=other\nnode.id=7\n")
    assert heal_meta_properties(fs, "/") == (MetaProperties("other", 7, None), "")


def test_a_dir_that_is_not_formatted_is_not_healed() -> None:
    assert heal_meta_properties(MemoryFileSystem(), "/") == (None, "")
