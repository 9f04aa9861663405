"""Sockets, ports, certificates and HTTP for tests."""
