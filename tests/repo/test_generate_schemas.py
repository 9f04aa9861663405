"""The schema generator on a jar made for the purpose."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated import metadata
from tools.generate_schemas import FAMILIES, Versions, load_json, snake

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools" / "generate_schemas.py"
SCHEMA = """// A licence, as Kafka's files have one.
{
  "apiKey": 7, "type": "metadata", "name": "SampleRecord",
  // Version 1 adds Rack.
  "validVersions": "0-1", "flexibleVersions": "1+",
  "fields": [
    { "name": "BrokerId", "type": "int32", "versions": "0+", "default": "-1" },
    { "name": "Rack", "type": "string", "nullableVersions": "1+", "taggedVersions": "1+", "tag": 0,
      "default": "null" },
    { "name": "EndPoints", "type": "[]Point", "versions": "0+", "fields": [
      { "name": "Host", "type": "string", "versions": "0+" },
      { "name": "Id", "type": "uuid", "versions": "1+" } ] }
  ]
}
"""


def _generate(tmp_path: Path) -> Path:
    empty = json.dumps(
        {"type": "data", "name": "EmptyData", "validVersions": "0", "flexibleVersions": "0+", "fields": []}
    )
    for family, prefix in FAMILIES.items():
        with zipfile.ZipFile(tmp_path / f"{prefix}-9.9.9.jar", "w") as jar:
            jar.writestr("common/Sample.json", SCHEMA if family == "metadata" else empty)
    output = tmp_path / "generated"
    subprocess.run([sys.executable, str(TOOL), str(tmp_path), "--output", str(output)], check=True)
    return output


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The generated module, in the place of the real family."""
    output = _generate(tmp_path)
    monkeypatch.setattr(metadata, "__path__", [str(output / "metadata")])
    for name in ("sample_record", "sample_record_older"):
        monkeypatch.delitem(sys.modules, f"{metadata.__name__}.{name}", raising=False)
    return importlib.import_module(f"{metadata.__name__}.sample_record")


def test_every_version_becomes_a_class_that_can_be_written_and_read(generated: ModuleType) -> None:
    old = generated.SampleRecordV0(end_points=(generated.PointV0(host="a"),))
    assert (old.broker_id, old.rack, old.end_points[0].id.int, old.__api_key__) == (-1, None, 0, 7)
    assert encode_entity(old).hex() == "ffffffff00000001000161"
    assert decode_entity(generated.SampleRecordV0, encode_entity(old))[0] == old
    new = generated.SampleRecord(rack="r", end_points=())
    assert decode_entity(generated.SampleRecord, encode_entity(new))[0] == new
    assert list(generated.VERSIONS.items()) == [(0, generated.SampleRecordV0), (1, generated.SampleRecordV1)]
    assert generated.SampleRecord is generated.SampleRecordV1


def test_older_versions_are_loaded_only_when_asked_for(generated: ModuleType) -> None:
    older = f"{generated.__name__}_older"
    # What `from module import name` asks for first.
    assert not hasattr(generated, "__path__")
    assert older not in sys.modules
    assert generated.SampleRecordV0.__version__ == 0
    assert older in sys.modules


def test_the_source_says_where_it_comes_from(tmp_path: Path) -> None:
    output = _generate(tmp_path)
    source = (output / "metadata" / "sample_record.py").read_text()
    assert "from kafka-metadata-9.9.9, common/Sample.json" in source
    assert (
        'MessageEntry("metadata", "sample_record", "SampleRecord", "metadata", 7, 0, 1)'
        in (output / "index.py").read_text()
    )
    assert "metadata/sample_record.py" in (output / "SHA256SUMS").read_text()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("1-4", [1, 4], [0, 5]), ("2+", [2, 99], [1]), ("none", [], [0, 1])],
)
def test_version_ranges(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_names_become_snake_case() -> None:
    assert [snake(name) for name in ("BrokerId", "endPoints", "KRaftVersion", "LastKnownElr")] == [
        "broker_id",
        "end_points",
        "k_raft_version",
        "last_known_elr",
    ]


def test_comments_are_no_part_of_a_schema() -> None:
    assert load_json(SCHEMA)["name"] == "SampleRecord"
