"""Bootstrap servers and the addresses that brokers advertise: names, routes, answers."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, Outcome, counted, error, fine, on_cluster, some, start_node, warning
from crabka.config.listeners import format_address

ADVERTISED: Final = "advertised.listeners"


class Probe(NamedTuple):
    """An address as this machine sees it."""

    host: str
    port: int
    # Empty if the name does not resolve.
    resolved: tuple[str, ...]
    # Why no Kafka node answered there, None if one did.
    failure: str | None = None

    @property
    def text(self) -> str:
        """HOST:PORT."""
        return format_address(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, wherever it is used."""
        return bool(self.resolved) and all(ipaddress.ip_address(each).is_loopback for each in self.resolved)

    @property
    def is_unspecified(self) -> bool:
        """Whether it names all addresses of a machine, which is none."""
        return any(ipaddress.ip_address(each).is_unspecified for each in self.resolved)


class BrokerAddress(NamedTuple):
    """The address that a broker advertises."""

    broker: int
    probe: Probe
    # Hosts that the broker listens on; empty if not known.
    listens_on: tuple[str, ...] = ()
    # Of the node that answers there, None if none did.
    cluster_id: str | None = None
    # Whether the broker answers at another address, that of a bootstrap server.
    answers_elsewhere: bool = False


class AddressFacts(NamedTuple):
    """What was tried from this machine."""

    cluster_id: str
    bootstrap: Sequence[Probe]
    brokers: Sequence[BrokerAddress]
    is_crabka: bool


def find_addresses(facts: AddressFacts) -> Outcome:
    """Return what keeps clients from reaching brokers."""
    findings = [*_bootstrap(facts), *_shared(facts.brokers)]
    for each in facts.brokers:
        findings += _broker(facts, each)
    if not findings:
        shown = ", ".join(each.probe.text for each in facts.brokers)
        findings.append(fine(f"{counted(len(facts.brokers), 'broker')} can be reached at {shown}"))
    return Outcome(findings)


def _bootstrap(facts: AddressFacts) -> Iterator[Finding]:
    # Those of brokers have a finding of their own.
    advertised = {each.probe.text for each in facts.brokers}
    silent = [each for each in facts.bootstrap if (each.failure or not each.resolved) and each.text not in advertised]
    if silent:
        shown = some(f"{each.text} ({each.failure or 'does not resolve'})" for each in silent)
        verb = "does" if len(silent) == 1 else "do"
        yield warning(
            f"{counted(len(silent), 'bootstrap server')} {verb} not answer: {shown}.",
            on_cluster("brokers", "list"),
            [each.text for each in silent],
        )


def _shared(brokers: Sequence[BrokerAddress]) -> Iterator[Finding]:
    owners: dict[str, list[int]] = defaultdict(list)
    for each in brokers:
        owners[each.probe.text].append(each.broker)
    for address, ids in owners.items():
        if len(ids) > 1:
            shown = " and ".join(map(str, ids))
            yield error(f"Brokers {shown} advertise the same address, {address}: clients reach only one.", places=ids)


def _broker(facts: AddressFacts, each: BrokerAddress) -> list[Finding]:
    probe, who = each.probe, f"Broker {each.broker}"
    mend = start_node(is_crabka=facts.is_crabka, **{ADVERTISED: f"PLAINTEXT://HOSTNAME:{probe.port}"})
    if probe.is_unspecified:
        return [error(f"{who} advertises {probe.text}, which is not an address that clients can connect to.", mend)]
    if not probe.resolved:
        return [error(f"{who} advertises {probe.text}, but {probe.host} does not resolve here.", mend)]
    if probe.is_loopback and any(not each.is_loopback for each in facts.bootstrap if each.resolved):
        return [error(f"{who} advertises {probe.text} to other machines, which then connect to themselves.", mend)]
    if probe.failure is not None:
        if not each.answers_elsewhere:
            mend = start_node(is_crabka=facts.is_crabka)
        return [error(f"{who} advertises {probe.text}, which does not answer: {probe.failure}.", mend)]
    if each.cluster_id is not None and each.cluster_id != facts.cluster_id:
        return [error(f"{who} advertises {probe.text}, where a node of another cluster answers.", mend)]
    if probe.is_loopback and any(not _is_local(host) for host in each.listens_on):
        bound = ", ".join(host or "all interfaces" for host in each.listens_on)
        return [
            warning(
                f"{who} listens on {bound} but advertises {probe.text}: other machines then connect to themselves.",
                mend,
            )
        ]
    return []


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
