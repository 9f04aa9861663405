"""Addresses as this machine sees them."""

from __future__ import annotations

from crabka.cli.doctor.checks.addresses import AddressFacts, Probe
from crabka.cli.doctor.gathering.addresses import _reason, gather_addresses, probe_address
from crabka.cli.doctor.gathering.overview import Overview
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import ClientNetworkError
from tests.support.wire.ports import free_port
from tests.unit.cli.doctor.conftest import Gather


def test_each_address_is_tried(gathered: Gather[AddressFacts], broker: str) -> None:
    closed = free_port()
    facts = gathered(
        lambda cluster, overview: gather_addresses(
            cluster, overview, f"{broker},127.0.0.1:{closed},0.0.0.0:1,no-such-host.invalid:2"
        )
    )
    (known,) = facts.brokers
    assert (known.broker, known.probe.text, known.cluster_id) == (1, broker, facts.cluster_id)
    assert known.listens_on == ("127.0.0.1",)
    assert [each.failure for each in facts.bootstrap] == [None, "connection refused", None, None]
    assert [each.resolved for each in facts.bootstrap[:2]] == [("127.0.0.1",)] * 2
    assert facts.bootstrap[2].is_unspecified
    assert facts.bootstrap[3].resolved == ()
    assert facts.is_crabka


def test_a_controller_is_reached_if_it_opens_a_connection(gathered: Gather[list[str | None]], broker: str) -> None:
    host, _, port = broker.rpartition(":")

    async def probe(cluster: Cluster, _: Overview) -> list[str | None]:
        return [await probe_address(cluster, host, int(port)), await probe_address(cluster, "no-such-host.invalid", 1)]

    assert gathered(probe) == [None, "no-such-host.invalid does not resolve"]


def test_reasons_do_not_repeat_the_address() -> None:
    probe = Probe("h", 9, ("192.0.2.1",))
    for text, reason in (
        ("cannot connect to h:9: [Errno 111] Connect call failed ('192.0.2.1', 9)", "connection refused"),
        ("cannot connect to h:9: TimeoutError", "no answer in time"),
        ("h:9 offers no version of METADATA.", "h:9 offers no version of METADATA"),
    ):
        assert _reason(ClientNetworkError(text), probe) == reason
