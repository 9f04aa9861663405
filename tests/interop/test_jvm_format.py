"""`crabka format` writes the files that `kafka-storage format` writes, byte for byte but for ids and times."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from crabka.cli.main import execute
from crabka.config.properties import format_properties, parse_properties
from crabka.ids import uuid_from_text
from crabka.records.control import SnapshotHeaderRecord, parse_control_record
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from crabka.vfs.guarded_file import COPY_PREFIX
from tests.support.kafka.oracle import CLUSTER_ID, require_jvm, run_tool

LISTENERS = {
    "broker": "PLAINTEXT://127.0.0.1:9192",
    "controller": "CONTROLLER://127.0.0.1:9193",
    "broker,controller": "PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9193",
}
VOTERS = "2@two.invalid:9194:MvDxzVmcRsaTz33bUuRU6A,1@127.0.0.1:9193:JEXY6aqzQY-32P5TStzaFg"
OTHERS = "2@two.invalid:9194:MvDxzVmcRsaTz33bUuRU6A,3@127.0.0.1:9195:07R5amHmR32VDA6jHkGbTA"
STATIC = "1@127.0.0.1:9193,2@two.invalid:9194"
# Kafka turns these on by itself; we do once we serve such groups.
LATER_FEATURES = ("--feature", "share.version=1", "--feature", "streams.version=1")

# A batch: the checksum at 17, the first and the last time at 27 and 35.
CHECKSUM = slice(17, 21)
TIMES = slice(27, 43)


@pytest.mark.parametrize(
    ("roles", "static", "mode"),
    [
        ("controller", "", ["--standalone"]),
        ("broker,controller", "", ["--standalone"]),
        ("controller", "", ["--initial-controllers", VOTERS]),
        ("controller", "", ["--no-initial-controllers"]),
        ("broker", "", []),
        ("broker", "", ["--initial-controllers", OTHERS]),
        ("controller", STATIC, []),
        ("broker", "2@two.invalid:9194", []),
    ],
)
def test_both_tools_write_the_same_files(tmp_path: Path, *, roles: str, static: str, mode: list[str]) -> None:
    require_jvm()
    theirs, ours = (_config(tmp_path / name, roles, static) for name in ("kafka", "crabka"))
    common = ["--cluster-id", CLUSTER_ID, *mode]
    run_tool("kafka.tools.StorageTool", "format", "--config", str(theirs), *common)
    assert execute(["format", "--config", str(ours), *common, *LATER_FEATURES]) == 0
    written = _files(ours.parent)
    assert written == _files(theirs.parent)
    assert {"data-1/meta.properties", "data-2/bootstrap.checkpoint", "metadata/meta.properties"} <= set(written)


@pytest.mark.parametrize("release", ["3.9", "4.0", "4.1"])
def test_both_tools_write_the_features_of_a_release(tmp_path: Path, release: str) -> None:
    require_jvm()
    theirs, ours = (_config(tmp_path / name, "controller", "") for name in ("kafka", "crabka"))
    common = ["--cluster-id", CLUSTER_ID, "--standalone", "--release-version", release]
    run_tool("kafka.tools.StorageTool", "format", "--config", str(theirs), *common)
    assert execute(["format", "--config", str(ours), *common]) == 0
    assert _files(ours.parent) == _files(theirs.parent)


def _config(directory: Path, roles: str, static: str) -> Path:
    directory.mkdir()
    quorum = {"controller.quorum.voters": static} if static else {"controller.quorum.bootstrap.servers": "h:9193"}
    properties = {
        "process.roles": roles,
        "node.id": "1",
        "listeners": LISTENERS[roles],
        "controller.listener.names": "CONTROLLER",
        "log.dirs": f"{directory}/data-1,{directory}/data-2",
        "metadata.log.dir": f"{directory}/metadata",
        **quorum,
    }
    path = directory / "server.properties"
    path.write_text(format_properties(properties))
    return path


def _files(directory: Path) -> dict[str, bytes | dict[str, str]]:
    """Return each file of the log dirs, without what differs from run to run and what only Crabka has beside them."""
    found: dict[str, bytes | dict[str, str]] = {}
    for path in sorted(directory.glob("*/**/*")):
        name = str(path.relative_to(directory))
        if path.name == "meta.properties":
            found[name] = {**parse_properties(path.read_text()), "directory.id": "any"}
        elif path.is_file() and not path.name.startswith(COPY_PREFIX):
            found[name] = _without_ids(path.parents[len(path.relative_to(directory).parts) - 2], _timeless(path))
    return found


def _timeless(path: Path) -> bytes:
    data = bytearray(path.read_bytes())
    for start, header in list(iter_headers(bytes(data))):
        batch = data[start : start + header.size_in_bytes]
        for record in decode_records(bytes(batch), header):
            message = parse_control_record(record) if header.is_control else None
            if isinstance(message, SnapshotHeaderRecord) and message.last_contained_log_timestamp:
                stamp = struct.pack(">q", message.last_contained_log_timestamp)
                assert batch[TIMES.stop :].count(stamp) == 1
                batch = batch[: TIMES.stop] + batch[TIMES.stop :].replace(stamp, bytes(8))
        batch[CHECKSUM] = bytes(4)
        batch[TIMES] = bytes(16)
        data[start : start + header.size_in_bytes] = batch
    return bytes(data)


def _without_ids(log_dir: Path, data: bytes) -> bytes:
    own = parse_properties((log_dir / "meta.properties").read_text())["directory.id"]
    return data.replace(uuid_from_text(own).bytes, bytes(16))
