from __future__ import annotations

import pytest

from crabka.errors import ConfigError, CorruptDataError
from crabka.quorum.loading import load_read_only
from crabka.quorum.metadata_log import DIRECTORY_NAME
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.storage import MetadataStorage, read_meta_properties
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.golden import GOLDEN
from tests.support.golden_disk import copy_to_memory
from tests.support.quorum_node import DIRECTORY, DIRECTORY_ID, LOG_DIRECTORY, formatted_disk


def _open(fs: MemoryFileSystem, directory: str = DIRECTORY) -> MetadataStorage:
    return MetadataStorage.open(fs, directory, MetadataLogSettings(), now_ms=1)


def test_a_formatted_directory_opens() -> None:
    storage = _open(formatted_disk())
    assert storage.properties.directory_id == DIRECTORY_ID
    assert storage.read_bootstrap()[0].name == "metadata.version"
    assert storage.log.end_offset == 0


def test_a_directory_without_identity_is_not_formatted() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIRECTORY)
    with pytest.raises(ConfigError, match="not formatted"):
        _open(fs)


def test_a_new_cluster_without_bootstrap_file_is_refused() -> None:
    fs = formatted_disk()
    fs.unlink(f"{DIRECTORY}/bootstrap.checkpoint")
    with pytest.raises(ConfigError, match="format the directory first"):
        _open(fs).read_bootstrap()


def test_a_damaged_identity_is_told() -> None:
    fs = formatted_disk()
    fs.open(f"{DIRECTORY}/meta.properties").truncate(3)
    with pytest.raises(CorruptDataError):
        read_meta_properties(fs, DIRECTORY)


def test_leftovers_of_an_interrupted_snapshot_are_removed() -> None:
    fs = formatted_disk()
    name = f"{LOG_DIRECTORY}/00000000000000000020-0000000002.checkpoint.part"
    fs.open(name, create=True).close()
    _open(fs)
    assert not fs.exists(name)


@pytest.mark.parametrize(("node", "offset"), [("single/d1", 452), ("quorum/c1", 396), ("quorum/c3", 395)])
def test_kafkas_directories_open_for_writing(node: str, offset: int) -> None:
    fs = copy_to_memory(GOLDEN / node, "/jvm")
    assert load_read_only(fs, f"/jvm/{DIRECTORY_NAME}").replay.image.offset == offset
    storage = _open(fs, "/jvm")
    assert storage.log.end_offset == offset + 1
