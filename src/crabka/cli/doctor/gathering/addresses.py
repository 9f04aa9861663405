"""Tries the bootstrap servers and the advertised addresses of brokers from this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

from crabka.cli.doctor.checks.addresses import AddressFacts, BrokerAddress, Probe
from crabka.cli.doctor.gathering.overview import Overview
from crabka.clients.cluster.cluster import Cluster, parse_bootstrap
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.metadata_sources import BrokerMetadata
from crabka.errors import CrabkaError


async def gather_addresses(cluster: Cluster, overview: Overview, bootstrap: str) -> AddressFacts:
    """Connect to each address once."""
    tried = await asyncio.gather(*(_try(cluster, *address) for address in parse_bootstrap(bootstrap)))
    brokers = [each for each in overview.active if each.host]
    answers = await asyncio.gather(*(_try(cluster, each.host, each.port) for each in brokers))
    return AddressFacts(
        overview.cluster_id,
        [probe for probe, _ in tried],
        [
            BrokerAddress(
                each.node_id,
                probe,
                _hosts(overview, each.node_id),
                cluster_id,
                answers_elsewhere=each.node_id in overview.configs,
            )
            for each, (probe, cluster_id) in zip(brokers, answers, strict=True)
        ],
        overview.is_crabka,
    )


async def probe_address(cluster: Cluster, host: str, port: int) -> str | None:
    """Return why no node can be reached there, None if one can."""
    probe, connection = await _connect(cluster, host, port)
    if connection is not None:
        await _close(connection)
    return probe.failure if probe.resolved else f"{host} does not resolve"


async def _try(cluster: Cluster, host: str, port: int) -> tuple[Probe, str | None]:
    """Return what an address is, and the id of the cluster that answers there."""
    probe, connection = await _connect(cluster, host, port)
    if connection is None:
        return probe, None
    try:
        source = BrokerMetadata()
        response = await connection.request(source.api_key, source.request((), create_topics=False))
        return probe, getattr(response, "cluster_id", None)
    except CrabkaError as error:
        return probe._replace(failure=_reason(error, probe)), None
    finally:
        await _close(connection)


async def _connect(cluster: Cluster, host: str, port: int) -> tuple[Probe, Connection | None]:
    probe = Probe(host, port, await _resolve(host, port))
    if not probe.resolved or probe.is_unspecified:
        return probe, None
    try:
        return probe, await Connection.open(cluster.runtime.network, host, port, cluster.settings.connection)
    except CrabkaError as error:
        return probe._replace(failure=_reason(error, probe)), None


async def _close(connection: Connection) -> None:
    connection.close()
    await connection.wait_closed()


def _reason(error: CrabkaError, probe: Probe) -> str:
    """Return the message without the address, which the sentence names already."""
    text = " ".join(str(error).split()).removeprefix(f"cannot connect to {probe.host}:{probe.port}: ")
    if "Connect call failed" in text or "Connection refused" in text:
        return "connection refused"
    return "no answer in time" if text == "TimeoutError" else text.rstrip(".")


async def _resolve(host: str, port: int) -> tuple[str, ...]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)
    return tuple(each for each in addresses if _is_address(each))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _hosts(overview: Overview, broker: int) -> tuple[str, ...]:
    """Return the hosts of the listeners for clients."""
    listeners = overview.broker_setting("listeners").get(broker, "")
    of_controllers = set(_parts(overview.broker_setting("controller.listener.names").get(broker, "")))
    hosts = []
    for text in _parts(listeners):
        name, _, address = text.partition("://")
        if name not in of_controllers:
            hosts.append(address.rpartition(":")[0].strip("[]"))
    return tuple(dict.fromkeys(hosts))


def _parts(text: str) -> Iterable[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
