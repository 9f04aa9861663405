"""Options of a replica of the metadata quorum, from a node's config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.config.listeners import parse_address
from crabka.ids import ZERO_UUID
from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterEndpoint, VoterNode, VoterSet
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.quorum.raft.sender import OutboundDialer
from crabka.quorum.settings import MetadataLogSettings

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig


class QuorumOptions(NamedTuple):
    """Options of a replica; the defaults are those of a lone voter."""

    log: MetadataLogSettings = MetadataLogSettings()
    kraft: KraftSettings = KraftSettings()
    endpoints: tuple[VoterEndpoint, ...] = ()
    # The voters of a static quorum (controller.quorum.voters).
    voters: VoterSet = VoterSet()
    # Addresses to find the leader (controller.quorum.bootstrap.servers).
    bootstrap: tuple[VoterEndpoint, ...] = ()
    dialer: OutboundDialer | None = None
    # Of connections to other controllers.
    security: ClientSecurity = UNPROTECTED
    min_insync_replicas: int = 1
    # Whether a controller that is not a voter requests to become one (controller.quorum.auto.join.enable).
    auto_join: bool = False
    # How the files are checked while the replica runs (crabka.log.scrub.*).
    scrub: ScrubSettings = ScrubSettings()


def quorum_options(
    config: ServerConfig, endpoints: Sequence[VoterEndpoint] = (), security: ClientSecurity = UNPROTECTED
) -> QuorumOptions:
    """Return the options in a node's config; `endpoints` are those of its bound controller listeners.

    Raises ConfigError for an invalid address.
    """
    return QuorumOptions(
        log=MetadataLogSettings.from_config(config),
        kraft=_kraft_settings(config),
        endpoints=tuple(endpoints),
        voters=_static_voters(config),
        bootstrap=_bootstrap(config),
        security=security,
        min_insync_replicas=config.min_insync_replicas,
        auto_join=config.is_controller and config.controller_quorum_auto_join_enable,
        scrub=ScrubSettings.from_config(config),
    )


def _kraft_settings(config: ServerConfig) -> KraftSettings:
    return KraftSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
    )


def _static_voters(config: ServerConfig) -> VoterSet:
    voters: dict[int, VoterNode] = {}
    for text in config.controller_quorum_voters:
        node_id, _, address = text.partition("@")
        # As in Kafka, the last address counts if a node is named twice.
        voters[int(node_id)] = VoterNode(int(node_id), ZERO_UUID, _endpoint(config, address))
    return VoterSet(tuple(voters.values()))


def _bootstrap(config: ServerConfig) -> tuple[VoterEndpoint, ...]:
    return tuple(
        endpoint for address in config.controller_quorum_bootstrap_servers for endpoint in _endpoint(config, address)
    )


def _endpoint(config: ServerConfig, address: str) -> tuple[VoterEndpoint, ...]:
    """Return an address on the controller listener; port 0, which picks a free port, is no address of a peer."""
    host, port = parse_address(address)
    return (VoterEndpoint(config.controller_listener_names[0], host, port),) if port else ()
