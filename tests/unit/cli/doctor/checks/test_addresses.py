"""Findings about addresses."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.addresses import AddressFacts, BrokerAddress, Probe, find_addresses
from tests.support.doctor.findings import line, only, texts

LOCAL = Probe("127.0.0.1", 9092, ("127.0.0.1",))
REMOTE = Probe("kafka.example", 9092, ("192.0.2.7",))


def facts(*brokers: BrokerAddress, bootstrap: Probe = REMOTE, is_crabka: bool = True) -> AddressFacts:
    return AddressFacts("c", [bootstrap], brokers, is_crabka)


def test_addresses_that_answer_are_fine() -> None:
    found = only(find_addresses(facts(BrokerAddress(1, REMOTE, ("0.0.0.0",), "c"))))
    assert (found.severity.value, found.reason) == ("ok", "1 broker can be reached at kafka.example:9092")


def test_a_local_cluster_is_fine() -> None:
    brokers = [
        BrokerAddress(1, LOCAL, ("127.0.0.1",), "c"),
        BrokerAddress(2, LOCAL._replace(port=9093), ("localhost",), "c"),
    ]
    assert only(find_addresses(facts(*brokers, bootstrap=LOCAL))).severity.value == "ok"


@pytest.mark.parametrize(
    ("broker", "bootstrap", "severity", "text"),
    [
        (
            BrokerAddress(1, Probe("0.0.0.0", 9092, ("0.0.0.0",))),
            LOCAL,
            "error",
            "Broker 1 advertises 0.0.0.0:9092, which is not an address that clients can connect to.",
        ),
        (
            BrokerAddress(1, Probe("::", 9092, ("::",))),
            LOCAL,
            "error",
            "Broker 1 advertises [::]:9092, which is not an address that clients can connect to.",
        ),
        (
            BrokerAddress(1, Probe("nowhere", 9092, ())),
            LOCAL,
            "error",
            "Broker 1 advertises nowhere:9092, but nowhere does not resolve here.",
        ),
        (
            BrokerAddress(1, LOCAL, ("0.0.0.0",), "c"),
            REMOTE,
            "error",
            "Broker 1 advertises 127.0.0.1:9092 to other machines, which then connect to themselves.",
        ),
        (
            BrokerAddress(1, LOCAL, ("0.0.0.0",), "c"),
            LOCAL,
            "warning",
            "Broker 1 listens on 0.0.0.0 but advertises 127.0.0.1:9092: other machines then connect to themselves.",
        ),
        (
            BrokerAddress(1, LOCAL, ("",), "c"),
            LOCAL,
            "warning",
            (
                "Broker 1 listens on all interfaces but advertises 127.0.0.1:9092: other machines then connect to "
                "themselves."
            ),
        ),
        (
            BrokerAddress(1, REMOTE._replace(failure="connection refused"), answers_elsewhere=True),
            REMOTE,
            "error",
            "Broker 1 advertises kafka.example:9092, which does not answer: connection refused.",
        ),
        (
            BrokerAddress(1, REMOTE, (), "another"),
            REMOTE,
            "error",
            "Broker 1 advertises kafka.example:9092, where a node of another cluster answers.",
        ),
    ],
)
def test_addresses_that_clients_cannot_use(broker: BrokerAddress, bootstrap: Probe, severity: str, text: str) -> None:
    found = only(find_addresses(facts(broker, bootstrap=bootstrap)))
    assert (found.severity.value, found.reason) == (severity, text)
    assert line(found).startswith("crabka serve --config server.properties --override advertised.listeners=")


def test_kafka_is_mended_with_its_own_command() -> None:
    broken = BrokerAddress(1, Probe("nowhere", 9092, ()))
    assert line(only(find_addresses(facts(broken, is_crabka=False)))).startswith("kafka-server-start.sh ")


def test_brokers_with_one_address_are_named() -> None:
    brokers = [BrokerAddress(1, REMOTE, (), "c"), BrokerAddress(2, REMOTE, (), "c")]
    assert texts(find_addresses(facts(*brokers))) == [
        ("error", "Brokers 1 and 2 advertise the same address, kafka.example:9092: clients reach only one.")
    ]


def test_a_silent_bootstrap_server_is_a_warning() -> None:
    silent = REMOTE._replace(host="gone", failure="connection refused")
    found = only(
        find_addresses(AddressFacts("c", [REMOTE, silent], [BrokerAddress(1, REMOTE, (), "c")], is_crabka=True))
    )
    assert (found.severity.value, line(found)) == ("warning", "crabka brokers list")
    assert found.reason == "1 bootstrap server does not answer: gone:9092 (connection refused)."


def test_a_broker_that_is_down_has_one_finding_and_is_to_be_started() -> None:
    gone = REMOTE._replace(failure="connection refused")
    found = only(find_addresses(AddressFacts("c", [LOCAL, gone], [BrokerAddress(1, gone)], is_crabka=True)))
    assert (found.severity.value, line(found)) == ("error", "crabka serve --config server.properties")
