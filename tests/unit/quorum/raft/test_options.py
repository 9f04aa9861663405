from __future__ import annotations

import pytest

from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.ids import ZERO_UUID
from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterEndpoint, VoterNode
from crabka.quorum.raft.options import QuorumOptions, quorum_options
from crabka.quorum.settings import MetadataLogSettings

PROPERTIES = {
    "process.roles": "controller",
    "node.id": "3",
    "listeners": "CTL://127.0.0.1:9093",
    "controller.listener.names": "ctl",
    "controller.quorum.bootstrap.servers": "c1:9093,[::1]:9094",
    "log.dirs": "/data",
}


def options_of(endpoints: tuple[VoterEndpoint, ...] = (), **changes: str) -> QuorumOptions:
    properties = {**PROPERTIES, **{name.replace("_", "."): text for name, text in changes.items()}}
    return quorum_options(ServerConfig.from_properties(properties)[0], endpoints)


def test_the_defaults_are_those_of_a_lone_voter() -> None:
    options = QuorumOptions()
    assert (options.log, options.kraft) == (MetadataLogSettings(), KraftSettings())
    assert (options.voters.nodes, options.bootstrap, options.dialer) == ((), (), None)


def test_a_config_without_changes_gives_the_times_of_kafka() -> None:
    assert options_of().kraft == KraftSettings(fetch_max_bytes=1 << 20, snapshot_max_bytes=1 << 20)
    assert options_of().log == MetadataLogSettings()


def test_every_time_and_size_comes_from_its_key() -> None:
    options = options_of(
        controller_quorum_election_timeout_ms="11",
        controller_quorum_election_backoff_max_ms="12",
        controller_quorum_fetch_timeout_ms="13",
        controller_quorum_request_timeout_ms="14",
        controller_quorum_retry_backoff_ms="15",
        controller_quorum_fetch_max_bytes="16",
        controller_quorum_fetch_snapshot_max_bytes="17",
        metadata_max_idle_interval_ms="18",
        min_insync_replicas="2",
    )
    assert options.kraft == KraftSettings(
        election_timeout_ms=11,
        election_backoff_max_ms=12,
        fetch_timeout_ms=13,
        request_timeout_ms=14,
        retry_backoff_ms=15,
        fetch_max_bytes=16,
        snapshot_max_bytes=17,
    )
    assert (options.log.max_idle_interval_ms, options.min_insync_replicas) == (18, 2)


def test_bootstrap_servers_are_on_the_first_controller_listener() -> None:
    assert options_of().bootstrap == (VoterEndpoint("CTL", "c1", 9093), VoterEndpoint("CTL", "::1", 9094))


def test_a_bootstrap_server_on_a_free_port_is_no_own_address() -> None:
    assert options_of(controller_quorum_bootstrap_servers="127.0.0.1:0").bootstrap == ()


def test_a_fixed_quorum_has_no_directory_ids() -> None:
    options = options_of(controller_quorum_voters="4@c4:1,3@c3:0")
    assert options.voters.nodes == (
        VoterNode(3, ZERO_UUID, ()),
        VoterNode(4, ZERO_UUID, (VoterEndpoint("CTL", "c4", 1),)),
    )


def test_the_last_address_of_a_voter_that_is_named_twice_counts() -> None:
    options = options_of(controller_quorum_voters="4@old:1,4@new:2")
    assert options.voters.endpoints_of(4) == (VoterEndpoint("CTL", "new", 2),)


def test_the_bound_endpoints_are_taken_over() -> None:
    bound = (VoterEndpoint("CTL", "127.0.0.1", 40001),)
    assert options_of(bound).endpoints == bound


def test_a_port_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="99999"):
        options_of(controller_quorum_voters="4@c4:99999")


def test_only_a_controller_joins_by_itself() -> None:
    assert not options_of().auto_join
    assert options_of(controller_quorum_auto_join_enable="true").auto_join
    as_broker = options_of(
        controller_quorum_auto_join_enable="true", process_roles="broker", listeners="PLAINTEXT://:9092"
    )
    assert not as_broker.auto_join
