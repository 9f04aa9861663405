"""What is wrong with a cluster that keeps a command waiting: nodes that cannot be reached, a quorum without leader.

Everything here uses connections of its own: brokers answer a connection in order, so the command's own are of no use
while it waits. It only looks; the command goes on, because a cluster may recover.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from crabka.cli.explanations import explained_text
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.clients.cluster.cluster import Cluster, ClusterSettings, parse_bootstrap
from crabka.clients.cluster.metadata import EndpointType
from crabka.clients.cluster.metadata_sources import ControllerMetadata, MetadataSource
from crabka.clients.errors import ClientNetworkError
from crabka.config.keys import parse_list
from crabka.config.listeners import format_address, parse_address
from crabka.errors import CrabkaError, OperationError
from crabka.ports import Runtime
from crabka.runtime.task_scope import TaskScope

# The first look, and the time that a healthy node needs for an answer, add up to less than three seconds.
PATIENCE_S: Final = 1.5
_PROBE_MS: Final = 1_000
# Without a node that is gone, only a long silence says that there is no leader.
_SLOW_ANSWER_MS: Final = 5_000
_VOTERS: Final = "controller.quorum.voters"
_CONTROLLERS: Final = "controller.quorum.bootstrap.servers"


class Peer(NamedTuple):
    """A node of the cluster; the id of a controller may be unknown."""

    node_id: int | None
    host: str
    port: int

    @property
    def name(self) -> str:
        """What a message calls it."""
        return str(self.node_id) if self.node_id is not None else format_address(self.host, self.port)


@asynccontextmanager
async def explaining_silence(
    runtime: Runtime, bootstrap: str, settings: ClusterSettings, source: MetadataSource | None
) -> AsyncIterator[None]:
    """While the body waits, say once on stderr what is wrong with the cluster, if anything is."""

    async def explain() -> None:
        await asyncio.sleep(PATIENCE_S)
        reason = await reason_of_silence(runtime, bootstrap, settings, source)
        if reason is not None:
            limit_s = settings.connection.request_timeout_ms / 1000
            print(f"crabka: {reason}; waiting up to {limit_s:g} s for an answer (--timeout)", file=sys.stderr)

    # What goes wrong while looking is no failure of the command.
    scope = TaskScope(on_failure=lambda _: None)
    scope.start(explain())
    try:
        yield
    finally:
        await scope.close()


async def reason_of_silence(
    runtime: Runtime, bootstrap: str, settings: ClusterSettings, source: MetadataSource | None = None
) -> str | None:
    """Return what is wrong with the cluster; None if all of it answers."""
    quick = _limited(settings, _PROBE_MS)
    if source is not None and source.endpoint_type is EndpointType.CONTROLLERS:
        controllers = [Peer(None, host, port) for host, port in parse_bootstrap(bootstrap)]
        reason, _lost = await _quorum_reason(runtime, bootstrap, quick, controllers, source)
        return reason
    async with Cluster(runtime, bootstrap, quick) as cluster:
        try:
            view = await cluster.refresh(())
        except CrabkaError as error:
            return f"no broker of {bootstrap} answers: {explained_text(error)}"
        brokers = [Peer(each.node_id, each.host, each.port) for each in view.brokers.values()]
        lost = await unreachable(runtime, brokers)
        alive = [each for each in brokers if each not in lost]
        controllers = await _controllers_of(Admin(cluster), alive) if alive else []
    reason, lost_controllers = await _quorum_reason(runtime, bootstrap, quick, controllers, None)
    # A node that is broker and controller is named once.
    others = [each for each in lost if each.node_id not in {controller.node_id for controller in lost_controllers}]
    parts = [reason, f"{listed('broker', others)} unreachable" if others else None]
    return "; ".join(filter(None, parts)) or None


async def unreachable(runtime: Runtime, peers: Iterable[Peer]) -> list[Peer]:
    """Return the nodes to which no connection can be opened."""
    known = sorted(peers, key=lambda each: (each.node_id or 0, each.host, each.port))
    answers = await asyncio.gather(*(_connects(runtime, each) for each in known))
    return [peer for peer, connects in zip(known, answers, strict=True) if not connects]


def listed(kind: str, peers: list[Peer]) -> str:
    """Return `voter 2` or `voters 2 and 3`."""
    *first, last = [each.name for each in peers]
    return f"{kind}s {', '.join(first)} and {last}" if first else f"{kind} {last}"


async def _quorum_reason(
    runtime: Runtime,
    bootstrap: str,
    settings: ClusterSettings,
    controllers: list[Peer],
    source: MetadataSource | None,
) -> tuple[str | None, list[Peer]]:
    """Return what is wrong with the quorum, and the controllers that cannot be reached."""
    lost = await unreachable(runtime, controllers)
    alive = [each for each in controllers if each not in lost]
    if alive and (lost or source is not None):
        controllers = await _with_ids(runtime, alive, settings) or controllers
        lost = await unreachable(runtime, controllers)
    is_majority_lost = len(lost) * 2 >= max(1, len(controllers))
    limit_ms = _PROBE_MS if is_majority_lost else _SLOW_ANSWER_MS
    if await _has_leader(runtime, bootstrap, _limited(settings, limit_ms), source):
        return None, lost
    detail = f"; {listed('voter', lost)} unreachable" if lost else " answers"
    return f"no active controller{detail}", lost


async def _has_leader(
    runtime: Runtime, bootstrap: str, settings: ClusterSettings, source: MetadataSource | None
) -> bool:
    """Return whether the quorum answers, or does not say."""
    try:
        async with Cluster(runtime, bootstrap, settings, source) as cluster:
            return (await Admin(cluster).cluster.describe_quorum()).leader_id >= 0
    except ClientNetworkError:
        return False
    except OperationError as error:
        return not error.retriable
    except CrabkaError:
        return True  # an old broker, or one that refuses this client


async def _controllers_of(admin: Admin, brokers: list[Peer]) -> list[Peer]:
    """Return the controllers that a broker is configured with: brokers do not pass on what controllers say of them."""
    owner = ConfigOwner(ResourceType.BROKER, brokers[0].name)
    try:
        configs = await admin.describe_configs(owner, [_VOTERS, _CONTROLLERS])
    except CrabkaError:
        return []
    found = []
    for name in (_VOTERS, _CONTROLLERS):
        for text in parse_list((configs[name].value or "") if name in configs else ""):
            node_id, at, address = text.rpartition("@")
            host, port = parse_address(address)
            if port:  # 0 stands for a free port, of a node that is its only controller
                found.append(Peer(int(node_id) if at else None, host, port))
        if found:
            break
    return found


async def _with_ids(runtime: Runtime, alive: list[Peer], settings: ClusterSettings) -> list[Peer]:
    """Return all controllers as those that can be reached know them; nothing if they do not say."""
    bootstrap = ",".join(format_address(each.host, each.port) for each in alive)
    try:
        async with Cluster(runtime, bootstrap, settings, ControllerMetadata()) as cluster:
            view = await cluster.refresh(())
    except CrabkaError:
        return []
    return [Peer(each.node_id, each.host, each.port) for each in view.brokers.values()]


async def _connects(runtime: Runtime, peer: Peer) -> bool:
    try:
        async with asyncio.timeout(_PROBE_MS / 1000):
            transport, _ = await runtime.network.connect(asyncio.Protocol, peer.host, peer.port)
    except (OSError, TimeoutError):
        return False
    transport.close()
    return True


def _limited(settings: ClusterSettings, limit_ms: int) -> ClusterSettings:
    connection = replace(settings.connection, connect_timeout_ms=_PROBE_MS, request_timeout_ms=limit_ms)
    return replace(settings, connection=connection, metadata_timeout_ms=limit_ms)
