"""Offsets and partitions as JSON, in the form of Spark's Kafka source: topic -> partition -> number.

Checkpoints hold this form, so that a query can continue with either source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from crabka.errors import ConfigError
from crabka.ids import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
_MAX_PARTITION: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1

PartitionNumbers = dict[TopicPartition, int]


def parse_partitions(text: str, option: str) -> frozenset[TopicPartition]:
    """Return the partitions of `{"topicA":[0,1]}`. Raises ConfigError."""
    expected = f'{option}: expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {_shown(text)}'
    content = _object(text, expected)
    found: set[TopicPartition] = set()
    for topic, indexes in content.items():
        if not isinstance(indexes, list) or not all(_is_partition(index) for index in indexes):
            raise ConfigError(expected)
        found |= {TopicPartition(topic, index) for index in indexes}
    return frozenset(found)


def parse_offsets(text: str, option: str) -> PartitionNumbers:
    """Return the offsets of `{"topicA":{"0":23,"1":-1}}`, where -1 is latest and -2 earliest. Raises ConfigError."""
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    found = _parse_numbers(text, f"{option}: expected e.g. {example}, got {_shown(text)}")
    for partition, offset in found.items():
        if offset < EARLIEST:
            raise ConfigError(f"{option}: {offset} of {partition} is no offset; use -1 for latest and -2 for earliest")
    return found


def parse_timestamps(text: str, option: str) -> PartitionNumbers:
    """Return the milliseconds of `{"topicA":{"0":1700000000000}}`. Raises ConfigError."""
    example = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
    return _parse_numbers(text, f"{option}: expected e.g. {example}, got {_shown(text)}")


def offsets_to_dict(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as a checkpoint holds them, topics and partitions in order."""
    content: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        content.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return content


def offsets_from_dict(content: Mapping[str, Any]) -> PartitionNumbers:
    """Return what `offsets_to_dict`, or Spark's Kafka source, wrote. Raises ConfigError."""
    return _numbers(content, f"the checkpoint has offsets that cannot be read: {_shown(json.dumps(content))}")


def _parse_numbers(text: str, expected: str) -> PartitionNumbers:
    return _numbers(_object(text, expected), expected)


def _numbers(content: Mapping[str, Any], expected: str) -> PartitionNumbers:
    found: PartitionNumbers = {}
    for topic, numbers in content.items():
        if not isinstance(numbers, dict):
            raise ConfigError(expected)
        for index, number in numbers.items():
            if not (_is_index(index) and _is_long(number)):
                raise ConfigError(expected)
            found[TopicPartition(topic, int(index))] = number
    return found


def _object(text: str, expected: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        raise ConfigError(expected) from None
    if not isinstance(content, dict):
        raise ConfigError(expected)
    return content


def _is_index(text: str) -> bool:
    # More digits than a partition can have would be refused by int() itself.
    return text.isascii() and text.isdecimal() and len(text) < 100 and _is_partition(int(text))


def _is_partition(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_PARTITION


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MAX_LONG - 1 <= value <= _MAX_LONG


def _shown(text: str) -> str:
    """Return a text on one line and not too long for a message."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"
