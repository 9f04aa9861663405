"""The embedded consumer protocol: what classic consumers send in JoinGroup and receive in SyncGroup.

A version as int16 and a body. The broker reads and writes it only where a group moves between the two protocols.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema import consumer_protocol_assignment, consumer_protocol_subscription

from crabka.errors import WireError
from crabka.protocol.entity_codec import decode_entity, encode_entity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.catalog import TopicCatalog

_VERSION = Struct(">h")
_NEWEST = 3


class EmbeddedSubscription(NamedTuple):
    """The subscription of a classic consumer: topics, owned partitions, and rack."""

    version: int
    topics: tuple[str, ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...] = ()
    rack_id: str | None = None

    def owned_in(self, catalog: TopicCatalog) -> Partitions:
        """Return the owned partitions by topic id, without deleted topics."""
        return _by_id(self.owned, catalog)


def _by_id(topics: tuple[tuple[str, tuple[int, ...]], ...], catalog: TopicCatalog) -> Partitions:
    return {
        catalog.by_name[name].topic_id: frozenset(partitions) for name, partitions in topics if name in catalog.by_name
    }


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise WireError("an embedded consumer protocol is cut short")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"an embedded consumer protocol has the version {version}")
    # Later versions only add to the end.
    return min(int(version), _NEWEST)


def _class(package: Any, version: int, name: str) -> Any:
    module = __import__(f"{package.__name__}.v{version}.data", fromlist=[name])
    return getattr(module, name)


def decode_subscription_untrusted(data: bytes) -> EmbeddedSubscription:
    """Read a subscription. Raises WireError."""
    version = _version_of(data)
    stored: Any
    stored, _ = decode_entity(
        _class(consumer_protocol_subscription, version, "ConsumerProtocolSubscription"), data, _VERSION.size
    )
    owned = tuple((str(each.topic), tuple(each.partitions)) for each in getattr(stored, "owned_partitions", ()))
    return EmbeddedSubscription(
        version, tuple(str(each) for each in stored.topics), owned, getattr(stored, "rack_id", None)
    )


def decode_assignment_untrusted(data: bytes, catalog: TopicCatalog) -> Partitions:
    """Read an assignment; empty bytes are an empty one. Raises WireError."""
    if not data:
        return {}
    entity = _class(consumer_protocol_assignment, _version_of(data), "ConsumerProtocolAssignment")
    stored: Any
    stored, _ = decode_entity(entity, data, _VERSION.size)
    return _by_id(tuple((str(each.topic), tuple(each.partitions)) for each in stored.assigned_partitions), catalog)


def encode_assignment(partitions: Mapping[Any, Any], catalog: TopicCatalog, version: int) -> bytes:
    """Return the bytes of an assignment, without deleted topics."""
    entity = _class(consumer_protocol_assignment, version, "ConsumerProtocolAssignment")
    topic = _class(consumer_protocol_assignment, version, "TopicPartition")
    body = entity(
        assigned_partitions=tuple(
            topic(topic=catalog.by_id[topic_id].name, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in partitions.items()
            if topic_id in catalog.by_id
        ),
        user_data=None,
    )
    return _VERSION.pack(version) + encode_entity(body)
