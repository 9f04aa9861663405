"""`crabka doctor` finds what was planted in embedded nodes, and what it suggests mends it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crabka.cli.doctor.checks import descriptors, disks
from crabka.cli.doctor.gathering import transactions
from crabka.cli.main import execute
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner, NewTopic, ResourceType
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from tests.support.clients.stray_transaction import leave_hanging
from tests.support.nodes.process import wait_until
from tests.support.wire.ports import free_port

HOUR_MS = 3_600_000


class Report(NamedTuple):
    """What the doctor said, as programs read it."""

    code: int
    document: dict[str, Any]

    def of(self, check: str, *severities: str) -> list[dict[str, Any]]:
        """The problems of a check."""
        wanted = severities or ("error", "warning")
        return [each for each in self.document["findings"] if each["check"] == check and each["severity"] in wanted]

    def problems(self) -> set[tuple[str, str]]:
        """All errors and warnings by check."""
        found = self.document["findings"]
        return {(each["check"], each["severity"]) for each in found if each["severity"] in ("error", "warning")}


Doctor = Callable[..., Report]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    # The disk and the limits of the machine that runs the tests are not what is tested.
    for name in ("FULL_SHARE", "LOW_SHARE"):
        monkeypatch.setattr(disks, name, 0)
    for name in ("SLOW_MS", "LATE_MS"):
        monkeypatch.setattr(disks, name, float("inf"))
    monkeypatch.setattr(descriptors, "LEAST_LIMIT", 0)

    def run(*arguments: str) -> Report:
        capsys.readouterr()
        code = execute(["doctor", "--json", *arguments])
        return Report(code, json.loads(capsys.readouterr().out))

    return run


@pytest.fixture
def mend(capsys: pytest.CaptureFixture[str]) -> Callable[[dict[str, Any]], None]:
    """Run the command of a finding."""

    def run(finding: dict[str, Any]) -> None:
        program, *arguments = shlex.split(finding["command"])
        assert program == "crabka"
        assert execute(arguments) == 0, capsys.readouterr().err

    return run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """A node with a tier and metrics that ends no transaction by itself and believes producers."""
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(HOUR_MS),
        "transaction.partition.verification.enable": "false",
        "crabka.http.listener": f"127.0.0.1:{free_port()}",
    }
    with Broker(settings, data_dir=tmp_path / "data", tier=tmp_path / "tier") as running:
        yield running.bootstrap_servers


def test_planted_problems_are_found_and_mended(
    broker: str, doctor: Doctor, mend: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--bootstrap", broker)
    healthy = doctor(*at)
    assert (healthy.code, healthy.document["healthy"], healthy.problems()) == (0, True, set())
    assert healthy.document["brokers"] == [1]
    assert healthy.of("damage", "ok")
    monkeypatch.setattr(transactions, "GRACE_MS", 0)
    stuck = ProducerSettings(transactional_id="stuck", transaction_timeout_ms=1)
    with SyncAdmin(broker) as admin, SyncProducer(broker) as producer, SyncProducer(broker, stuck) as held:
        admin.create_topics([NewTopic("t", 2, 1)])
        producer.send_many("t", [(None, b"a")] * 4, partition=0)
        admin.groups.alter_offsets("late", {TopicPartition("t", 0): 1})
        admin.delete_records({TopicPartition("t", 0): 3})
        held.init_transactions()
        held.begin_transaction()
        held.send("t", b"x", partition=0).result(60)
        leave_hanging(broker, "t")
        hinted = ConfigChange("preallocate", "true")
        admin.alter_configs(ConfigOwner(ResourceType.TOPIC, "t"), [hinted])
        found = doctor(*at)
        assert (found.code, found.problems()) == (1, {("transactions", "error"), ("groups", "warning")})
        open_one, hanging = found.of("transactions")
        assert open_one["reason"].startswith("The transaction of stuck is open for ")
        assert hanging["reason"].startswith("A transaction of producer 4711 is open in t-0 from offset 5 on for ")
        (late,) = found.of("groups")
        assert "missed 2 records that are removed: its offset 1 in t-0 is below the log start 3" in late["reason"]
        (setting,) = found.of("settings", "hint")
        assert setting["reason"] == "preallocate of t has no effect in Crabka."
        for finding in (open_one, hanging, late, setting):
            mend(finding)
    # The markers of the aborts are written in the background.
    wait_until(lambda: doctor(*at).code == 0, "all is mended")
    assert doctor(*at).of("settings", "hint") == []


def test_damage_and_lag_of_a_tier_are_found(broker: str, doctor: Doctor, tmp_path: Path) -> None:
    settings = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.ms": "-2"}
    with SyncAdmin(broker) as admin, SyncProducer(broker) as producer:
        admin.create_topics([NewTopic("cold", 1, 1, settings)])
        producer.send_many("cold", [(None, b"x" * 700_000)] * 4)

    def logs() -> list[Path]:
        return list((tmp_path / "tier").rglob("*.log"))

    wait_until(lambda: len(logs()) >= 3, "segments are in the tier")
    wait_until(lambda: not doctor("--bootstrap", broker).problems(), "the copies are finished")
    (sound,) = doctor("--bootstrap", broker).of("tier", "ok")
    assert sound["reason"] == "1 partition tiered, no object is missing"
    logs()[0].unlink()
    (finding,) = doctor("--bootstrap", broker).of("tier")
    assert (finding["severity"], finding["command"]) == ("error", f"crabka tier verify -b {broker}")
    assert finding["reason"].startswith("The tier has damage: missing-object at ")


def test_a_failed_disk_and_a_wrong_address_are_found(tmp_path: Path, doctor: Doctor) -> None:
    port, closed = free_port(), f"127.0.0.1:{free_port()}"
    listen = f"127.0.0.1:{port}"
    settings = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b", "metadata.log.dir": f"{tmp_path}/a"}
    with Broker(settings, data_dir=f"{tmp_path}/a", port=port):
        pass
    (tmp_path / "b" / ".lock").unlink()
    # It cannot be locked, so that this dir fails and the other one works.
    (tmp_path / "b" / ".lock").mkdir()
    with Broker(settings, data_dir=f"{tmp_path}/a", port=port):
        found = doctor("--bootstrap", listen)
    assert (found.code, found.problems()) == (1, {("disks", "error")})
    assert found.of("disks")[0]["reason"].startswith(f"Log dir {tmp_path}/b of broker 1 is offline")
    settings["advertised.listeners"] = f"PLAINTEXT://{closed}"
    with Broker(settings, data_dir=f"{tmp_path}/a", port=port):
        found = doctor("--bootstrap", listen)
    assert (found.code, found.problems()) == (1, {("addresses", "error")})
    assert found.of("addresses")[0]["reason"] == (
        f"Broker 1 advertises {closed}, which does not answer: connection refused."
    )
    # What the bootstrap connection can answer is checked all the same.
    assert found.of("quorum", "ok", "hint")
    skipped = {each["check"]: each["reason"] for each in found.document["not_checked"]}
    assert skipped["groups"] == "broker 1 cannot be reached, and may be a coordinator"
    directory = doctor("--data-dir", f"{tmp_path}/a")
    assert (directory.code, directory.document["brokers"]) == (0, [1])
