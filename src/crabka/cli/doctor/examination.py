"""Runs the checks: each by itself, a few at a time, all within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from crabka.cli.doctor.checks.addresses import find_addresses
from crabka.cli.doctor.checks.clock import find_clock
from crabka.cli.doctor.checks.damage import find_damage
from crabka.cli.doctor.checks.data_dir import find_data_dir
from crabka.cli.doctor.checks.descriptors import find_descriptors
from crabka.cli.doctor.checks.disks import find_disks
from crabka.cli.doctor.checks.groups import find_groups
from crabka.cli.doctor.checks.partitions import PartitionFacts, find_partitions
from crabka.cli.doctor.checks.quorum import find_quorum
from crabka.cli.doctor.checks.settings import MIN_IN_SYNC, TOPIC_SETTINGS, SettingFacts, TopicSettings, find_settings
from crabka.cli.doctor.checks.tables import find_tables
from crabka.cli.doctor.checks.tier import find_tier
from crabka.cli.doctor.checks.transactions import find_transactions
from crabka.cli.doctor.checks.versions import find_versions
from crabka.cli.doctor.finding import Finding, NotApplicableError, Outcome, warning
from crabka.cli.doctor.gathering.addresses import gather_addresses
from crabka.cli.doctor.gathering.brokers import (
    gather_clock,
    gather_descriptors,
    gather_disks,
    gather_quorum,
    gather_versions,
)
from crabka.cli.doctor.gathering.data_dir import gather_data_dir
from crabka.cli.doctor.gathering.groups import gather_groups
from crabka.cli.doctor.gathering.metrics import BrokerMetrics, damage_facts, gather_metrics, tier_failures
from crabka.cli.doctor.gathering.overview import Configs, Overview, gather_overview, topic_configs
from crabka.cli.doctor.gathering.tables import LakeTables, gather_tables
from crabka.cli.doctor.gathering.tier import gather_tier
from crabka.cli.doctor.gathering.transactions import gather_transactions
from crabka.cli.session import cluster_settings
from crabka.cli.units import format_duration
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.errors import ClientNetworkError
from crabka.errors import CrabkaError
from crabka.ports import Runtime
from crabka.runtime import real_runtime, run

T = TypeVar("T")

# Checks at a time: a cluster in trouble has other work.
_CHECKS_AT_ONCE: Final = 4
# Share of the time for one connection, and for one answer.
_CONNECT_SHARE: Final = 5
_ANSWER_SHARE: Final = 3
_LONGEST_ANSWER_MS: Final = 10_000
# Without an active controller the brokers wait for one, and so does this.
_LONGEST_QUORUM_ANSWER_MS: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to examine."""

    bootstrap: str
    command_config: str | None
    timeout_ms: int
    tier_url: str | None
    tables: LakeTables
    source_options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check."""

    name: str
    findings: Sequence[Finding]
    # What it could not know.
    unknown: Sequence[str] = ()
    # Why there was nothing to check, None if it was checked.
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What was examined."""

    cluster_id: str = ""
    # Those that serve, and those that are registered and do not.
    brokers: Sequence[int] = ()
    fenced: Sequence[int] = ()
    software: str = ""
    data_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks."""

    target: Target
    results: Sequence[CheckResult]

    @property
    def findings(self) -> list[tuple[str, Finding]]:
        """All findings with the names of their checks."""
        return [(result.name, finding) for result in self.results for finding in result.findings]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing was found that an operator has to mend."""
        return not any(finding.severity.is_problem for _, finding in self.findings)


class Checks:
    """The checks of a cluster by name. Each gathers its facts and hands them to a pure function."""

    def __init__(self, clusters: tuple[Cluster, Cluster], overview: Overview, request: Request) -> None:
        """The second cluster is for requests that wait for the controller, so that nothing waits behind them."""
        self._cluster, self._forwarding = clusters
        self._overview = overview
        self._request = request
        self._answer_ms = _answer_ms(request)
        self._quorum_ms = min(self._answer_ms, _LONGEST_QUORUM_ANSWER_MS)
        self._metrics = _Once(self._gather_metrics)
        self._topic_configs = _Once(self._gather_topic_configs)

    def by_name(self) -> Mapping[str, Callable[[], Awaitable[Outcome]]]:
        """Return the checks in the order of the report."""
        return {
            "addresses": self._addresses,
            "quorum": self._quorum,
            "partitions": self._partitions,
            "disks": self._disks,
            "damage": self._damage,
            "transactions": self._transactions,
            "groups": self._groups,
            "tier": self._tier,
            "tables": self._tables,
            "settings": self._settings,
            "versions": self._versions,
            "clock": self._clock,
            "descriptors": self._descriptors,
        }

    async def _addresses(self) -> Outcome:
        return find_addresses(await gather_addresses(self._cluster, self._overview, self._request.bootstrap))

    async def _quorum(self) -> Outcome:
        return find_quorum(await gather_quorum(self._forwarding, self._overview, self._quorum_ms))

    async def _clock(self) -> Outcome:
        return find_clock(await gather_clock(self._forwarding, self._overview, self._quorum_ms))

    async def _partitions(self) -> Outcome:
        configs = await self._topic_configs.get()
        topics = [_topic_settings(self._overview, name, configs) for name in self._overview.topics]
        minimums = {topic.name: topic.number(MIN_IN_SYNC) for topic in topics}
        return find_partitions(
            PartitionFacts(
                list(self._overview.topics.values()),
                sorted(self._overview.fenced),
                {name: minimum for name, minimum in minimums.items() if minimum is not None},
                self._overview.is_crabka,
            )
        )

    async def _disks(self) -> Outcome:
        return find_disks(await gather_disks(self._cluster, self._overview))

    async def _damage(self) -> Outcome:
        return find_damage(damage_facts(await self._metrics.get()))

    async def _transactions(self) -> Outcome:
        return find_transactions(await gather_transactions(self._cluster, self._overview, self._answer_ms))

    async def _groups(self) -> Outcome:
        return find_groups(await gather_groups(self._cluster, self._overview))

    async def _tier(self) -> Outcome:
        try:
            failures = tier_failures(await self._metrics.get())
        except NotApplicableError:
            failures = None
        return find_tier(await gather_tier(self._cluster, self._overview, failures, self._request.tier_url))

    async def _tables(self) -> Outcome:
        threads = self._cluster.runtime.threads
        return find_tables(await threads.submit(gather_tables, self._request.tables, self._request.source_options))

    async def _settings(self) -> Outcome:
        configs = await self._topic_configs.get()
        overview = self._overview
        return find_settings(
            SettingFacts(
                [_topic_settings(overview, name, configs) for name in overview.topics],
                overview.configs,
                [each.node_id for each in overview.active],
                overview.is_crabka,
                [each for each in overview.unreachable if each not in overview.configs],
            )
        )

    async def _versions(self) -> Outcome:
        return find_versions(await gather_versions(self._cluster, self._overview, self._request.bootstrap))

    async def _descriptors(self) -> Outcome:
        return find_descriptors(*await gather_descriptors(self._cluster, self._overview))

    async def _gather_metrics(self) -> BrokerMetrics:
        return await gather_metrics(self._cluster, self._overview, self._answer_ms)

    async def _gather_topic_configs(self) -> Mapping[str, Configs]:
        return await topic_configs(Admin(self._cluster, self._answer_ms), list(self._overview.topics), TOPIC_SETTINGS)


class _Once(Generic[T]):
    """A fact that several checks need, gathered for the first that asks."""

    def __init__(self, gather: Callable[[], Awaitable[T]]) -> None:
        self._gather = gather
        self._turn = asyncio.Lock()
        self._found: list[T] = []

    async def get(self) -> T:
        """Return the fact. Raises what gathering it raises; the next that asks tries again."""
        async with self._turn:
            if not self._found:
                self._found.append(await self._gather())
            return self._found[0]


def examine_cluster(request: Request) -> Examination:
    """Examine a cluster. Raises ConfigError for bad options, ClientNetworkError if no broker answers."""
    return run(_examine(request))


def examine_data_dir(path: str) -> Examination:
    """Examine the directory of a node, without a cluster."""
    facts = gather_data_dir(path.rstrip("/") or "/")
    outcome = find_data_dir(facts)
    identity = facts.identity
    target = Target(
        "" if identity is None else identity.cluster_id,
        () if identity is None else (identity.node_id,),
        data_dir=facts.path,
    )
    return Examination(target, [CheckResult("directory", outcome.findings, outcome.unknown)])


async def _examine(request: Request) -> Examination:
    runtime = real_runtime()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    settings = _settings_of(request)
    try:
        async with _cluster(runtime, request, settings) as cluster, _cluster(runtime, request, settings) as forwarding:
            try:
                async with asyncio.timeout_at(deadline):
                    overview = await gather_overview(cluster)
            except TimeoutError as error:
                waited = format_duration(request.timeout_ms)
                raise ClientNetworkError(f"{request.bootstrap} did not answer within {waited}") from error
            checks = Checks((cluster, forwarding), overview, request).by_name()
            turns = asyncio.Semaphore(_CHECKS_AT_ONCE)
            runs = (_run(name, check, turns, deadline, request) for name, check in checks.items())
            results = await asyncio.gather(*runs)
    finally:
        # A disk that hangs must not keep the command.
        runtime.threads.close(wait=False)
    software = "Crabka" if overview.is_crabka else "Apache Kafka"
    active = [each.node_id for each in overview.active]
    return Examination(Target(overview.cluster_id, active, sorted(overview.fenced), software), results)


async def _run(
    name: str,
    check: Callable[[], Awaitable[Outcome]],
    turns: asyncio.Semaphore,
    deadline: float,
    request: Request,
) -> CheckResult:
    """Run a check; whatever happens in it becomes its result."""
    try:
        async with asyncio.timeout_at(deadline), turns:
            outcome = await check()
    except NotApplicableError as error:
        return CheckResult(name, (), skipped=str(error))
    except TimeoutError:
        text = f"The check was not finished within {format_duration(request.timeout_ms)}; --timeout allows more."
        return CheckResult(name, [warning(text)])
    except (CrabkaError, OSError) as error:
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        return CheckResult(name, [warning(f"This could not be checked: {text}.")])
    except Exception as error:  # noqa: BLE001 - a defect in one check must not hide what the others found
        return CheckResult(name, [warning(f"This check has a defect and says nothing: {error!r}.")])
    return CheckResult(name, outcome.findings, outcome.unknown)


def _topic_settings(overview: Overview, name: str, configs: Mapping[str, Configs]) -> TopicSettings:
    topic = overview.topics[name]
    count = min((len(each.replicas) for each in topic.partitions.values()), default=0)
    return TopicSettings(name, count, topic.is_internal, configs.get(name, {}))


def _cluster(runtime: Runtime, request: Request, settings: ClusterSettings) -> Cluster:
    return Cluster(runtime, request.bootstrap, settings)


def _settings_of(request: Request) -> ClusterSettings:
    given = cluster_settings(request.command_config)
    connection = replace(
        given.connection,
        connect_timeout_ms=min(given.connection.connect_timeout_ms, max(1, request.timeout_ms // _CONNECT_SHARE)),
        request_timeout_ms=_answer_ms(request),
    )
    return replace(given, connection=connection, metadata_timeout_ms=_answer_ms(request))


def _answer_ms(request: Request) -> int:
    return max(1, min(_LONGEST_ANSWER_MS, request.timeout_ms // _ANSWER_SHARE))
