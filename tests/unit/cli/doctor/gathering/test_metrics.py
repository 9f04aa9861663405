"""Facts from the metrics of brokers."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.damage import DamagedRange
from crabka.cli.doctor.gathering.metrics import BrokerMetrics, _address, damage_facts, gather_metrics, tier_failures
from crabka.cli.log_dirs.check import parse_samples
from crabka.ids import TopicPartition
from tests.unit.cli.doctor.conftest import Gather

TEXT = """
crabka_log_scrub_repaired_ranges_total 2.0
crabka_log_damaged_offsets{topic="t",partition="3",first_offset="10",last_offset="19",file="/d/t-3/0.log"} 10.0
kafka_server_brokertopicmetrics_remotecopyerrors_total{topic="t"} 4.0
kafka_server_brokertopicmetrics_remotecopyerrors_total{topic="u"} 1.0
kafka_server_brokertopicmetrics_remotecopyrequests_total{topic="t"} 9.0
"""


def test_damage_and_repairs_are_read() -> None:
    facts = damage_facts(BrokerMetrics({2: list(parse_samples(TEXT))}, ["broker 1: no metrics"]))
    assert facts.ranges == [DamagedRange(2, TopicPartition("t", 3), 10, 19, "/d/t-3/0.log")]
    assert (facts.repaired_count, facts.read_from, facts.unread) == (2, [2], ["broker 1: no metrics"])


def test_failed_requests_to_the_tier_are_summed() -> None:
    samples = list(parse_samples(TEXT))
    assert tier_failures(BrokerMetrics({1: samples, 2: samples}, ())) == {"failed copies": 10}
    assert tier_failures(BrokerMetrics({}, ())) is None


@pytest.mark.parametrize(
    ("listener", "address"), [("10.0.0.1:9", "10.0.0.1:9"), ("0.0.0.0:9", "h:9"), (":9", "h:9"), ("[::]:9", "h:9")]
)
def test_metrics_on_all_interfaces_are_read_at_the_address_of_the_broker(listener: str, address: str) -> None:
    assert _address(listener, "h") == address


def test_brokers_without_metrics_are_named(gathered: Gather[BrokerMetrics]) -> None:
    found = gathered(lambda cluster, overview: gather_metrics(cluster, overview, 1_000))
    assert found == BrokerMetrics({}, ["no metrics from broker 1, crabka.http.listener is not set"])
