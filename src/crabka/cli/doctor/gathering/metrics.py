"""The metrics of Crabka brokers that serve them: damage in logs, and failed requests to the tier."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.checks.damage import DamagedRange, DamageFacts
from crabka.cli.doctor.finding import NotApplicableError, brokers
from crabka.cli.doctor.gathering.overview import OWN_SETTING, Overview
from crabka.cli.log_dirs.check import Sample, damage_rows, fetch_metrics, parse_samples
from crabka.clients.cluster.cluster import Cluster
from crabka.config.listeners import format_address, parse_address
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

_REPAIRED: Final = "crabka_log_scrub_repaired_ranges_total"
_TIER: Final = "kafka_server_brokertopicmetrics_"
_TIER_FAILURES: Final[Mapping[str, str]] = {
    f"{_TIER}remotecopyerrors_total": "failed copies",
    f"{_TIER}remotedeleteerrors_total": "failed deletions",
    f"{_TIER}remotefetcherrors_total": "failed reads",
    f"{_TIER}buildremotelogauxstateerrors_total": "failed starts of followers",
}
_UNSPECIFIED: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


class BrokerMetrics(NamedTuple):
    """The samples of the brokers that serve metrics, and why those of others are missing."""

    samples: Mapping[int, Sequence[Sample]]
    unread: Sequence[str]


async def gather_metrics(cluster: Cluster, overview: Overview, timeout_ms: int) -> BrokerMetrics:
    """Read the metrics of all brokers. Raises NotApplicableError if they are not Crabka."""
    if not overview.is_crabka:
        raise NotApplicableError("Apache Kafka does not report it")
    addresses = overview.broker_setting(OWN_SETTING)
    hosts = {each.node_id: each.host for each in overview.active}
    found = await asyncio.gather(
        *(_read(cluster, _address(text, hosts.get(broker, "")), timeout_ms) for broker, text in addresses.items())
    )
    answers = dict(zip(addresses, found, strict=True))
    unread = [f"broker {broker}: {each}" for broker, each in sorted(answers.items()) if isinstance(each, str)]
    silent = [broker for broker in overview.configs if broker not in addresses]
    if silent:
        unread.append(f"no metrics from {brokers(silent)}, {OWN_SETTING} is not set")
    return BrokerMetrics({broker: each for broker, each in answers.items() if not isinstance(each, str)}, unread)


def damage_facts(metrics: BrokerMetrics) -> DamageFacts:
    """Return the damaged ranges of all brokers."""
    ranges = [
        DamagedRange(
            broker,
            TopicPartition(row["topic"], row["partition"]),
            row["first_offset"],
            row["last_offset"],
            row["file"],
        )
        for broker, samples in sorted(metrics.samples.items())
        for row in damage_rows(broker, list(samples))
    ]
    repaired = sum(value for samples in metrics.samples.values() for name, _, value in samples if name == _REPAIRED)
    return DamageFacts(ranges, int(repaired), sorted(metrics.samples), metrics.unread)


def tier_failures(metrics: BrokerMetrics) -> Mapping[str, int] | None:
    """Return how many requests to the tier failed, by kind; None if no broker serves metrics."""
    if not metrics.samples:
        return None
    failed: Counter[str] = Counter()
    for samples in metrics.samples.values():
        for name, _, value in samples:
            if name in _TIER_FAILURES:
                failed[_TIER_FAILURES[name]] += int(value)
    return failed


async def _read(cluster: Cluster, address: str, timeout_ms: int) -> list[Sample] | str:
    try:
        text = await cluster.runtime.threads.submit(fetch_metrics, address, timeout_ms / 1000)
        return list(parse_samples(text))
    except (ConfigError, ValueError) as error:
        return str(error)


def _address(text: str, host: str) -> str:
    """Return where this machine finds what a broker serves on all of its addresses."""
    given, port = parse_address(text)
    return format_address(host if given in _UNSPECIFIED else given, port)
