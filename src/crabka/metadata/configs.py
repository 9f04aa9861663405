"""Dynamic configs by resource: their part of the image and how records change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from crabka.metadata.draft import MappingDraft
from crabka.metadata.records import ConfigRecord


class ConfigResourceType(IntEnum):
    """Kinds of resources with configs, by Kafka's ids."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource; the broker resource with the empty name is the default of all brokers."""

    resource_type: int
    name: str


_NO_CONFIGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Config values by resource; a resource without values has no entry."""

    resources: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)

    def get(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the values set on a resource, without defaults of any kind."""
        return self.resources.get(ConfigResource(resource_type, name), _NO_CONFIGS)

    def to_records(self) -> Iterator[Any]:
        """Yield the records that rebuild this part."""
        for resource, values in self.resources.items():
            for name, value in values.items():
                yield ConfigRecord(
                    resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value
                )


class ConfigsDelta:
    """Changes of configs on top of an image."""

    def __init__(self, image: ConfigsImage) -> None:
        self._image = image
        self._resources = MappingDraft(image.resources)
        self.changed: set[ConfigResource] = set()

    def set_config(self, record: Any) -> None:
        """Replay ConfigRecord; a null value removes the key."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = dict(self._resources.get(resource) or {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._resources.set(resource, values)
        else:
            self._resources.remove(resource)
        self.changed.add(resource)

    def remove_topic(self, name: str) -> None:
        """Forget the configs of a topic that goes, or left-overs of an older one when a new topic comes."""
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        if self._resources.remove(resource) is not None:
            self.changed.add(resource)

    def apply(self) -> ConfigsImage:
        """Return the image with the changes."""
        current = self._resources.current
        return self._image if current is self._image.resources else ConfigsImage(current)
