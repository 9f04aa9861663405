"""Which APIs this node serves, in which versions, and what it says of them in ApiVersions.

The table is the single source: dispatch, ApiVersions and docs/COMPATIBILITY.md are made from it. Handler
modules are imported on first use, which keeps start-up short.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import SPECS, ApiKey, ApiSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabka.broker.context import BrokerContext, Request

    Handle = Callable[[BrokerContext, Request], Any | Awaitable[Any]]

# Kafka advertises Produce from version 0, so that old librdkafka releases detect message format 2 (KIP-896).
ADVERTISED_PRODUCE_MIN_VERSION = 0

# InitProducerId v6 (KIP-939) is unstable in Kafka 4.3 and not advertised there.
STABLE_MAX_VERSIONS = {ApiKey.INIT_PRODUCER_ID: 5}

SERVED_KEYS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One served API: the versions that are answered and the lowest one that is advertised."""

    key: ApiKey
    min_version: int
    max_version: int
    advertised_min_version: int

    @property
    def module_name(self) -> str:
        """Return the module that answers it."""
        return f"crabka.broker.handlers.{self.key.name.lower()}"


# Their handlers return whole frames, packed by hand.
_PACKED_BY_HAND = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})


class Handler:
    """A loaded handler: how to read its requests, how to answer them, and whether it must be awaited."""

    __slots__ = ("handle", "is_async", "packs_frames", "read")

    def __init__(
        self, handle: Handle, read: Callable[[int, memoryview, int], Any] | None, *, packs_frames: bool
    ) -> None:
        self.handle = handle
        self.read = read
        self.is_async = inspect.iscoroutinefunction(handle)
        self.packs_frames = packs_frames


def served_api(key: ApiKey) -> ServedApi:
    """Return the versions of one API that this node serves."""
    spec = SPECS[key]
    advertised = ADVERTISED_PRODUCE_MIN_VERSION if key is ApiKey.PRODUCE else spec.min_version
    max_version = STABLE_MAX_VERSIONS.get(key, spec.max_version)
    return ServedApi(key, spec.min_version, max_version, advertised)


SERVED: dict[int, ServedApi] = {int(key): served_api(key) for key in SERVED_KEYS}
# The same as Kafka's own specs, cut to what is served: what the header parser looks up.
SERVED_SPECS: dict[int, ApiSpec] = {
    key: SPECS[key]._replace(min_version=api.min_version, max_version=api.max_version) for key, api in SERVED.items()
}


def load_handler(api: ServedApi) -> Handler:
    """Import the module of an API and return its handler."""
    module = importlib.import_module(api.module_name)
    return Handler(module.handle, getattr(module, "read", None), packs_frames=api.key in _PACKED_BY_HAND)
