"""Where the other nodes reach this node's controller: its advertised controller listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from crabka.config.listeners import ListenerAddress, parse_endpoints

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig

# What Kafka puts where a listener is bound to all addresses and none is advertised.
_ANY_ADDRESS_HOST = "localhost"


def controller_endpoints(config: ServerConfig) -> tuple[ListenerAddress, ...]:
    """Return the controller listeners as peers dial them, in the order of `controller.listener.names`.

    An entry of `advertised.listeners` wins over the one of `listeners`; empty for a node that is only a broker.
    """
    protocols = {listener.name: listener.security_protocol for listener in config.controller_listeners}
    given = cast("tuple[str, ...]", config.value("advertised.listeners") or ())
    ours = [text for text in given if text.strip().partition(":")[0].upper() in protocols]
    known = {listener.name: listener for listener in config.controller_listeners}
    known |= {listener.name: listener for listener in parse_endpoints("advertised.listeners", ours, protocols)}
    return tuple(_reachable(known[name]) for name in config.controller_listener_names if name in known)


def _reachable(listener: ListenerAddress) -> ListenerAddress:
    if listener.host:
        return listener
    return ListenerAddress(listener.name, _ANY_ADDRESS_HOST, listener.port, listener.security_protocol)
