"""Target replicas of partitions: from Kafka's JSON, from options, or computed for a set of brokers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crabka.errors import ConfigError
from crabka.ids import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]

_ANY_DIRECTORY = "any"
_VERSION = 1


def read_plan(path: str) -> Assignment:
    """Read a file in the format of kafka-reassign-partitions. Raises ConfigError."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    return parse_plan(content, path)


def parse_plan(content: Any, where: str) -> Assignment:
    """Return the replicas in decoded JSON. Raises ConfigError."""
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise ConfigError(f"{where}: there is no list of partitions")
    if content.get("version", _VERSION) != _VERSION:
        raise ConfigError(f"{where}: version {content['version']} is unknown, known is {_VERSION}")
    plan: Assignment = {}
    for entry in content["partitions"]:
        partition, replicas = _parse_entry(entry, where)
        if partition in plan:
            raise ConfigError(f"{where}: {partition} is named twice")
        plan[partition] = replicas
    if not plan:
        raise ConfigError(f"{where}: the list of partitions is empty")
    return plan


def _parse_entry(entry: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    try:
        partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        replicas = tuple(int(replica) for replica in entry["replicas"])
        directories = entry.get("log_dirs", [])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {json.dumps(entry)} needs topic, partition and replicas") from error
    if not replicas or len(set(replicas)) < len(replicas):
        raise ConfigError(f"{where}: {partition} needs different replicas, at least one")
    if any(directory != _ANY_DIRECTORY for directory in directories):
        raise ConfigError(f"{where}: {partition}: moves to a chosen directory are not supported")
    return partition, replicas


def plan_as_json(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Return a plan in the format of kafka-reassign-partitions."""
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(plan[partition])}
        for partition in sorted(plan)
    ]
    return {"version": _VERSION, "partitions": partitions}


def plan_for_brokers(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], racks: Mapping[int, str | None]
) -> Assignment:
    """Spread partitions over brokers evenly, moving as few replicas as that allows.

    Every partition keeps its number of replicas; they go to different racks as far as there are racks, and each
    broker is the preferred leader of about as many partitions as any other. Raises ConfigError for too few brokers.
    """
    for partition, replicas in current.items():
        if len(replicas) > len(brokers):
            raise ConfigError(f"{partition} has {len(replicas)} replicas, more than there are brokers")
    plan = {partition: [broker for broker in current[partition] if broker in brokers] for partition in sorted(current)}
    held = Counter(broker for replicas in plan.values() for broker in replicas)
    for partition, replicas in plan.items():
        while len(replicas) < len(current[partition]):
            replicas.append(_next_broker(replicas, brokers, held, racks))
            held[replicas[-1]] += 1
    while (move := _evening_move(plan, brokers, held, racks)) is not None:
        partition, high, low = move
        plan[partition][plan[partition].index(high)] = low
        held.subtract({high: 1, low: -1})
    return _with_even_leaders(plan)


def _evening_move(
    plan: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    held: Counter[int],
    racks: Mapping[int, str | None],
) -> tuple[TopicPartition, int, int] | None:
    """Return a partition, an overloaded broker and one that can take it over; None when all is even."""
    by_load = sorted(brokers, key=lambda broker: (held[broker], broker))
    for high in reversed(by_load):
        for low in by_load:
            if held[high] - held[low] <= 1:
                break
            for partition, replicas in plan.items():
                if high in replicas and low not in replicas and _keeps_racks(replicas, high, low, racks):
                    return partition, high, low
    return None


def _keeps_racks(replicas: Sequence[int], high: int, low: int, racks: Mapping[int, str | None]) -> bool:
    others = {racks.get(broker) for broker in replicas if broker != high}
    return len(others | {racks.get(low)}) >= len(others | {racks.get(high)})


def _next_broker(
    chosen: Iterable[int], brokers: Sequence[int], held: Counter[int], racks: Mapping[int, str | None]
) -> int:
    taken = set(chosen)
    used_racks = {racks[broker] for broker in taken if racks.get(broker) is not None}
    free = [broker for broker in brokers if broker not in taken]
    return min(free, key=lambda broker: (racks.get(broker) in used_racks, held[broker], broker))


def _with_even_leaders(plan: Mapping[TopicPartition, Sequence[int]]) -> Assignment:
    """Put another replica first where the first one leads more than its share."""
    leads: Counter[int] = Counter()
    result: Assignment = {}
    for partition, replicas in plan.items():
        first = min(replicas, key=lambda broker: (leads[broker], replicas.index(broker)))
        leads[first] += 1
        result[partition] = (first, *(broker for broker in replicas if broker != first))
    return result
