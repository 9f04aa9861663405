from __future__ import annotations

import dataclasses
import json

import pyarrow as pa
import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.formats.manifests import (
    Manifest,
    decode_manifest,
    encode_manifest,
    fold,
    manifest_path,
    manifest_version,
    next_manifest,
)
from crabka.spark.plan.history.witnesses import BatchWitness

FIRST = Manifest(
    version=0,
    timestamp_ms=1,
    operation="create",
    topic="orders",
    topic_id="id",
    schema=pa.schema([("a", pa.list_(pa.string()))]),
    partition_column="a",
    offsets={},
    full=True,
)


def file(name: str) -> DataFile:
    return DataFile(name, 1, 2, "x", ColumnRange(0, 1))


def test_a_manifest_survives_its_text() -> None:
    manifest = dataclasses.replace(FIRST, version=3, added=(file("a"),), removed=("b",), offsets={0: 5}, full=False)
    assert decode_manifest(encode_manifest(manifest)) == manifest
    manifest = dataclasses.replace(manifest, witnesses={0: (BatchWitness(1, 4, 0, 7, 8, 4),)})
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_a_manifest_of_an_earlier_version_has_no_witnesses() -> None:
    content = json.loads(encode_manifest(FIRST))
    del content["witnesses"]
    assert decode_manifest(json.dumps(content).encode()) == FIRST


def test_names_sort_as_versions_do() -> None:
    assert manifest_path(7) == "_crabka/00000000000000000007.json"
    assert manifest_version(manifest_path(123)) == 123
    for other in (
        "_crabka/7.json",
        "_crabka/00000000000000000007.json.tmp",
        "x/00000000000000000007.json",
        "a.parquet",
    ):
        assert manifest_version(other) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"format": 1}'])
def test_a_damaged_manifest_is_reported(data: bytes) -> None:
    with pytest.raises(LakeError, match="manifest"):
        decode_manifest(data)


def test_a_manifest_of_a_later_format_is_refused() -> None:
    content = json.loads(encode_manifest(FIRST)) | {"format": 2}
    with pytest.raises(LakeError, match="format 2"):
        decode_manifest(json.dumps(content).encode())


def test_the_table_is_what_manifests_add_and_remove() -> None:
    state = fold([FIRST])
    manifests = [FIRST]
    for added, removed, is_full in (
        (["a", "b"], [], False),
        (["c"], ["a"], False),
        (["d"], ["b"], True),
        (["e"], ["c"], False),
    ):
        manifests.append(
            next_manifest(state, map(file, added), removed, is_full=is_full, timestamp_ms=2, operation="sync")
        )
        state = fold(manifests)
    assert [each.path for each in state.files] == ["d", "e"]
    assert state.base_version == 3
    assert fold(manifests[3:]) == state


def test_a_hole_in_the_manifests_is_reported() -> None:
    second = next_manifest(fold([FIRST]), [], [], is_full=False, timestamp_ms=2, operation="sync")
    third = dataclasses.replace(second, version=2)
    with pytest.raises(LakeError, match="version 1 is missing"):
        fold([FIRST, third])
    with pytest.raises(LakeError, match="full"):
        fold([second, third])


def test_what_is_not_in_the_table_cannot_be_removed() -> None:
    with pytest.raises(LakeError, match="not in it"):
        next_manifest(fold([FIRST]), [], ["a"], is_full=False, timestamp_ms=2, operation="compact")
