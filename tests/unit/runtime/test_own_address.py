"""What a node on all addresses advertises, on machines with all kinds of names."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from crabka.runtime.own_address import reachable_host

ELSEWHERE = "192.0.2.7"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine named box.example or box, and what its resolver knows."""
    known: dict[str, str] = {}

    def getaddrinfo(name: str, *_: Any) -> list[Any]:
        if name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[name], 0))]

    monkeypatch.setattr(socket, "getfqdn", lambda: "box.example")
    monkeypatch.setattr(socket, "gethostname", lambda: "box")
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


def test_a_name_that_resolves_to_this_machine_is_taken(resolver: dict[str, str]) -> None:
    resolver["box.example"] = "127.0.0.1"
    assert reachable_host("0.0.0.0") == "box.example"


def test_the_short_name_is_taken_where_the_long_one_does_not_resolve(resolver: dict[str, str]) -> None:
    resolver["box"] = "127.0.0.1"
    assert reachable_host("") == "box"


def test_every_machine_is_its_own_localhost(resolver: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    resolver.update({"localhost.localdomain": "127.0.0.1", "box": "127.0.0.1"})
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost.localdomain")
    assert reachable_host("0.0.0.0") == "box"


@pytest.mark.parametrize("known", [{}, {"box.example": ELSEWHERE, "box": ELSEWHERE}])
def test_a_name_that_is_unknown_or_of_another_machine_gives_way_to_an_address(
    resolver: dict[str, str], known: dict[str, str]
) -> None:
    resolver.update(known)
    found = reachable_host("0.0.0.0")
    with socket.socket() as listening:
        listening.bind((found, 0))


def test_a_machine_without_a_network_has_its_loopback_address(
    resolver: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no route")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert not resolver
    assert [reachable_host(host) for host in ("0.0.0.0", "::", "")] == ["127.0.0.1", "::1", "127.0.0.1"]
