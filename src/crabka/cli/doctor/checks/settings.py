"""Settings without effect, and settings with which records or availability can be lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import (
    Command,
    Finding,
    Outcome,
    cannot_reach,
    counted,
    fine,
    hint,
    on_cluster,
    some,
    warning,
)
from crabka.cli.units import format_duration
from crabka.clients.admin.admin_types import ConfigValue
from crabka.config.presets import (
    NodePorts,
    combined_node_properties,
    one_node_properties,
    tiered_node_properties,
)
from crabka.config.resolve import ConfigSource
from crabka.config.settings.table import SERVER_KEYS
from crabka.config.topic import TOPIC_KEYS

MIN_IN_SYNC: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
RETENTION_MS: Final = "retention.ms"
LOCAL_RETENTION_MS: Final = "local.retention.ms"
REMOTE_STORAGE: Final = "remote.storage.enable"
CLEANUP_POLICY: Final = "cleanup.policy"
TOPIC_SETTINGS: Final = (
    MIN_IN_SYNC,
    UNCLEAN,
    RETENTION_MS,
    LOCAL_RETENTION_MS,
    REMOTE_STORAGE,
    CLEANUP_POLICY,
    "preallocate",
)

# What `crabka up` and `crabka cluster demo` set by themselves.
_DEMO_NODES: Final = [NodePorts(number, 0, 0) for number in range(3)]
_PRESETS: Final = frozenset(
    item
    for preset in (
        one_node_properties("", "", 0),
        tiered_node_properties({}),
        *(combined_node_properties(_DEMO_NODES[0], _DEMO_NODES[:count], "") for count in (2, 3)),
    )
    for item in preset.items()
)
_SAFE_COPIES: Final = 3
_UNLIMITED: Final = -1

Configs = Mapping[str, ConfigValue]


class TopicSettings(NamedTuple):
    """A topic: its settings and the smallest number of replicas of its partitions."""

    name: str
    replica_count: int
    is_internal: bool
    configs: Configs

    def text(self, name: str) -> str | None:
        """Return a value, None if the broker does not know the setting."""
        found = self.configs.get(name)
        return None if found is None else found.value

    def number(self, name: str) -> int | None:
        """Return a number; None if there is none."""
        text = self.text(name)
        return int(text) if text is not None and text.lstrip("-").isdecimal() else None


class SettingFacts(NamedTuple):
    """The settings of topics, and of the brokers that answered."""

    topics: Sequence[TopicSettings]
    brokers: Mapping[int, Configs]
    broker_ids: Sequence[int]
    is_crabka: bool
    unreachable: Sequence[int] = ()


def find_settings(facts: SettingFacts) -> Outcome:
    """Return settings without effect, and dangerous ones."""
    findings = [*_min_in_sync(facts), *_unclean(facts), *_single_copies(facts), *_local_retention(facts)]
    if facts.is_crabka:
        findings += [*_inert_of_brokers(facts), *_inert_of_topics(facts)]
    if not findings:
        count = sum(_is_explicit(value) for configs in facts.brokers.values() for value in configs.values())
        findings.append(fine(f"{counted(count, 'setting')} of brokers and {counted(len(facts.topics), 'topic')}"))
    return Outcome(findings, cannot_reach(facts.unreachable))


def _min_in_sync(facts: SettingFacts) -> Iterator[Finding]:
    replicated = [topic for topic in facts.topics if topic.replica_count > 1]
    # A topic needs no more replicas in sync than it has, whatever the setting says.
    without_spare = [topic.name for topic in replicated if (topic.number(MIN_IN_SYNC) or 0) >= topic.replica_count]
    if without_spare:
        verb = "stops" if len(without_spare) == 1 else "stop"
        yield warning(
            f"{counted(len(without_spare), 'topic')} {verb} taking writes with acks=all when one broker is down: "
            f"{MIN_IN_SYNC} leaves none to spare ({some(without_spare)}).",
            _set(without_spare[0], MIN_IN_SYNC, _replicas(facts, without_spare[0]) - 1),
            without_spare,
        )
    alone = [
        topic.name for topic in replicated if topic.replica_count >= _SAFE_COPIES and topic.number(MIN_IN_SYNC) == 1
    ]
    if alone:
        verb = "acknowledges" if len(alone) == 1 else "acknowledge"
        yield warning(
            f"{counted(len(alone), 'topic')} with {_SAFE_COPIES} or more replicas {verb} records that only one of them "
            f"has: {MIN_IN_SYNC} is 1 ({some(alone)}).",
            _set(alone[0], MIN_IN_SYNC, 2),
            alone,
        )


def _replicas(facts: SettingFacts, name: str) -> int:
    return next(topic.replica_count for topic in facts.topics if topic.name == name)


def _unclean(facts: SettingFacts) -> Iterator[Finding]:
    names = [topic.name for topic in facts.topics if topic.text(UNCLEAN) == "true" and topic.replica_count > 1]
    if names:
        yield warning(
            f"{counted(len(names), 'topic')} may lose acknowledged records: {UNCLEAN} lets replicas out of sync "
            f"lead ({some(names)}).",
            _set(names[0], UNCLEAN, "false"),
            names,
        )


def _single_copies(facts: SettingFacts) -> Iterator[Finding]:
    if len(facts.broker_ids) <= 1:
        return
    single = [topic.name for topic in facts.topics if topic.replica_count == 1]
    if single:
        verb = "has" if len(single) == 1 else "have"
        ids = ",".join(str(each) for each in sorted(facts.broker_ids)[:_SAFE_COPIES])
        yield hint(
            f"{counted(len(single), 'topic')} {verb} one replica in a cluster of {len(facts.broker_ids)} brokers "
            f"({some(single)}): without its broker it is gone.",
            on_cluster("partitions", "reassign", "--topic", single[0], "--replicas", ids, "--execute"),
            single,
        )


def _local_retention(facts: SettingFacts) -> Iterator[Finding]:
    for topic in facts.topics:
        total, local = topic.number(RETENTION_MS), topic.number(LOCAL_RETENTION_MS)
        if topic.text(REMOTE_STORAGE) != "true" or total is None or local is None or total == _UNLIMITED:
            continue
        if local > total or local == _UNLIMITED:
            kept = "for ever" if local == _UNLIMITED else format_duration(local)
            yield warning(
                f"{topic.name} keeps records on disk {kept} ({LOCAL_RETENTION_MS}) but removes them after "
                f"{format_duration(total)} ({RETENTION_MS}): the tier has nothing to keep longer.",
                on_cluster("configs", "alter", "topic", topic.name, "--delete", LOCAL_RETENTION_MS),
                [topic.name],
            )


def _inert_of_brokers(facts: SettingFacts) -> Iterator[Finding]:
    values: dict[str, set[str]] = defaultdict(set)
    dynamic: dict[str, int] = {}
    for broker, configs in facts.brokers.items():
        for name, found in configs.items():
            key = SERVER_KEYS.get(name)
            if key is not None and key.effect == "none" and _is_chosen(name, found):
                values[name].add(found.value or "")
                if found.source == ConfigSource.DYNAMIC_BROKER_CONFIG:
                    dynamic[name] = broker
    if values:
        names = sorted(values, key=lambda name: (name not in dynamic, name))
        shown = some(f"{name}={'|'.join(sorted(values[name]))}" for name in names)
        verb = "has" if len(values) == 1 else "have"
        name = names[0]
        remove = on_cluster("configs", "alter", "broker", dynamic[name], "--delete", name) if name in dynamic else None
        yield hint(f"{counted(len(values), 'setting')} of brokers {verb} no effect in Crabka: {shown}.", remove, names)


def _inert_of_topics(facts: SettingFacts) -> Iterator[Finding]:
    inert = {name for name, key in TOPIC_KEYS.items() if key.effect == "none"}
    for topic in facts.topics:
        given = [name for name in sorted(inert & set(topic.configs)) if _is_explicit(topic.configs[name])]
        if given:
            yield hint(
                f"{', '.join(given)} of {topic.name} has no effect in Crabka.",
                on_cluster("configs", "alter", "topic", topic.name, "--delete", given[0]),
                [topic.name],
            )


def _is_explicit(found: ConfigValue) -> bool:
    return found.source not in (ConfigSource.DEFAULT_CONFIG, ConfigSource.UNKNOWN)


def _is_chosen(name: str, found: ConfigValue) -> bool:
    """Return whether an operator set a value, rather than a command of ours."""
    return _is_explicit(found) and (name, found.value) not in _PRESETS


def _set(topic: str, name: str, value: object) -> Command:
    return on_cluster("configs", "alter", "topic", topic, "--set", f"{name}={value}")
