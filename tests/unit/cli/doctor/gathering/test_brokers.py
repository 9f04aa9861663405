"""Facts that a node reports of itself, and of its process on this machine."""

from __future__ import annotations

import sys

import pytest

from crabka.cli.doctor.checks.clock import ClockFacts
from crabka.cli.doctor.checks.descriptors import ProcessFiles
from crabka.cli.doctor.checks.disks import DiskFacts
from crabka.cli.doctor.checks.quorum import QuorumFacts, VoterProbe
from crabka.cli.doctor.checks.versions import VersionFacts
from crabka.cli.doctor.gathering.brokers import (
    _configured_voters,
    _probe,
    gather_clock,
    gather_descriptors,
    gather_disks,
    gather_quorum,
    gather_versions,
)
from crabka.cli.doctor.gathering.overview import Overview
from crabka.clients.admin.admin_types import ConfigValue
from crabka.clients.cluster.cluster import Cluster
from crabka.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from tests.support.wire.ports import free_port
from tests.unit.cli.conftest import RunCommand
from tests.unit.cli.doctor.conftest import Gather


def test_log_dirs_of_this_machine_have_a_speed(gathered: Gather[DiskFacts]) -> None:
    facts = gathered(gather_disks)
    (found,) = facts.dirs
    assert (found.broker, found.is_online, len(found.sync_ms)) == (1, True, 8)
    assert 0 < found.usable_bytes <= found.total_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_of_this_machine_are_found(gathered: Gather[tuple[list[ProcessFiles], list[int]]]) -> None:
    (process,), elsewhere = gathered(gather_descriptors)
    assert (process.broker, elsewhere) == (1, [])
    assert 0 < process.open_count < process.limit


def test_versions_come_from_the_opening_of_the_connection(gathered: Gather[VersionFacts]) -> None:
    facts = gathered(lambda cluster, overview: gather_versions(cluster, overview, "h:1"))
    (found,) = facts.brokers
    assert found.features[METADATA_VERSION].finalized == LATEST_METADATA_VERSION
    assert found.apis[0][1] >= 13
    assert facts.is_crabka


def test_the_quorum_is_described(gathered: Gather[QuorumFacts]) -> None:
    facts = gathered(lambda cluster, overview: gather_quorum(cluster, overview, 10_000))
    assert facts.described is not None
    assert (facts.described.leader_id, facts.active_brokers) == (1, [1])


def test_the_time_of_the_controller_is_read(gathered: Gather[ClockFacts], on_broker: RunCommand) -> None:
    on_broker("topics", "create", "timed")
    on_broker("records", "produce", "timed", "a")
    on_broker("groups", "reset", "timed", "--topic", "timed", "--to-latest", "--execute")
    facts = gathered(lambda cluster, overview: gather_clock(cluster, overview, 10_000))
    (reading,) = facts.controllers
    assert (reading.node, reading.ahead_ms) == (1, 0)
    # The offset was committed with a record that this broker stamped.
    assert [(each.node, each.ahead_ms) for each in facts.stamped] == [(1, 0)]
    assert facts.unread == []


def test_voters_of_a_silent_quorum_are_tried(gathered: Gather[list[VoterProbe]], broker: str) -> None:
    closed = free_port()
    voters = f"1@{broker},2@127.0.0.1:{closed}"
    setting = ConfigValue("controller.quorum.voters", voters, 4, False, False, 0, None, ())
    servers = setting._replace(name="controller.quorum.bootstrap.servers", value=f"{broker},[::1]:7")
    overview = Overview("c", (), frozenset(), {}, {1: {each.name: each for each in (setting, servers)}}, ())
    host, _, port = broker.rpartition(":")
    assert sorted(_configured_voters(overview)) == [
        ("[::1]:7", "::1", 7),
        ("voter 1", host, int(port)),
        ("voter 2", "127.0.0.1", closed),
    ]

    async def probe(cluster: Cluster, _: Overview) -> list[VoterProbe]:
        return [await _probe(cluster, *each) for each in _configured_voters(overview) if each[0].startswith("voter")]

    found = {each.name: each.failure for each in gathered(probe)}
    assert found == {"voter 1": None, "voter 2": "connection refused"}
