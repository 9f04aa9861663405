from __future__ import annotations

import uuid

import pytest

from crabka.errors import CorruptDataError
from crabka.log.directories import read_meta_properties, write_meta_properties
from crabka.metadata.meta_properties import MetaProperties
from crabka.testing import MemoryFileSystem
from crabka.vfs import OsFileSystem, write_atomic
from tests.support.golden import GOLDEN


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


def test_damage_is_told_with_the_path() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    write_atomic(fs, "/data/meta.properties", b"\xff\xfe")
    with pytest.raises(CorruptDataError, match=r"/data/meta\.properties"):
        read_meta_properties(fs, "/data")
