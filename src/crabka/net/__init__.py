"""Sockets: connections that keep Kafka's rules of order and flow, and the server that owns them."""

from crabka.net.connection import ServerConnection
from crabka.net.dispatch import ConnectionInfo, Dispatch
from crabka.net.limits import ConnectionLimits
from crabka.net.server import Server

__all__ = ["ConnectionInfo", "ConnectionLimits", "Dispatch", "Server", "ServerConnection"]
