from __future__ import annotations

from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.meta_properties import MetaProperties, decode_meta_properties, encode_meta_properties
from crabka.ids import uuid_to_text
from tests.support.recorded.files import GOLDEN


def test_kafkas_file_is_read() -> None:
    properties = decode_meta_properties((GOLDEN / "quorum" / "c1" / "meta.properties").read_bytes())
    assert (properties.cluster_id, properties.node_id) == ("GoldenQuorumClusterId0", 1)
    assert properties.directory_id is not None
    assert uuid_to_text(properties.directory_id) == "CmuumxHbQe6p8F7KP9Qi4g"


@pytest.mark.parametrize("directory_id", [UUID(int=12345), None])
def test_what_is_written_is_read_back(directory_id: UUID | None) -> None:
    properties = MetaProperties("abc", 7, directory_id)
    assert decode_meta_properties(encode_meta_properties(properties)) == properties


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "version is None"),
        ("version=0\nbroker.id=1", "version is '0'"),
        ("version=1\nnode.id=1", "cluster.id is missing"),
        ("version=1\ncluster.id=a", "node.id is missing"),
        ("version=1\ncluster.id=a\nnode.id=x", "invalid literal"),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=short", "UUID"),
    ],
)
def test_a_wrong_file_names_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        decode_meta_properties(text.encode())
