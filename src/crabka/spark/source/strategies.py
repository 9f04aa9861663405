"""Which partitions are read: named ones, those of named topics, or those of topics whose names match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.source.java_patterns import compile_java_pattern
from crabka.spark.source.offset_json import parse_partitions
from crabka.spark.source.option_names import ASSIGN, STRATEGIES, SUBSCRIBE, SUBSCRIBE_PATTERN


@dataclass(frozen=True, slots=True)
class Assign:
    """Just these partitions."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose names the pattern, one of Java's, is found."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Return whether the pattern is found anywhere in the name, as Spark's source looks for it."""
        return compile_java_pattern(self.pattern).search(topic) is not None


Strategy = Assign | Subscribe | SubscribePattern


def parse_strategy(options: Mapping[str, str]) -> Strategy:
    """Return what the options say. Raises ConfigError unless exactly one of the three is given and makes sense."""
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        raise ConfigError(f"{'one' if not given else 'only one'} of {', '.join(STRATEGIES)} must be given")
    name, value = given[0], options[given[0]].strip()
    if name == ASSIGN:
        if not value.startswith("{"):
            raise ConfigError(f"{ASSIGN}: no partitions to read in {value!r}")
        return Assign(parse_partitions(value, ASSIGN))
    if name == SUBSCRIBE:
        topics = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
        if not topics:
            raise ConfigError(f"{SUBSCRIBE}: no topics to read in {value!r}")
        return Subscribe(topics)
    return _pattern(value)


def _pattern(value: str) -> SubscribePattern:
    if not value:
        raise ConfigError(f"{SUBSCRIBE_PATTERN}: the pattern is empty")
    try:
        compile_java_pattern(value)
    except ValueError as error:
        raise ConfigError(f"{SUBSCRIBE_PATTERN}: {value} is no regular expression that can be used: {error}") from None
    return SubscribePattern(value)
