"""Which APIs a listener serves, in which versions, and where their handlers are.

Such a table is the single source: dispatch, ApiVersions and docs/COMPATIBILITY.md are made from it. A handler is a
module named as the API, imported on first use, which keeps start-up short, or a function that several APIs share.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import SPECS, ApiKey, ApiSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from crabka.serving.request import Request

    # The context is the one of the role that serves the table.
    Handle = Callable[[Any, Request], Any | Awaitable[Any]]

# Kafka advertises Produce from version 0, so that old librdkafka releases detect message format 2 (KIP-896).
ADVERTISED_PRODUCE_MIN_VERSION = 0

# InitProducerId v6 (KIP-939) is unstable in Kafka 4.3 and not advertised there.
STABLE_MAX_VERSIONS = {ApiKey.INIT_PRODUCER_ID: 5}

# What a broker may send on to the active controller in the name of a client.
FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One served API: the versions that are answered and the lowest one that is advertised."""

    key: ApiKey
    min_version: int
    max_version: int
    advertised_min_version: int


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

    def with_handle(self, handle: Handle, *, is_async: bool) -> Handler:
        """Return the same with another function."""
        other = Handler(handle, self.read, packs_frames=self.packs_frames)
        other.is_async = is_async
        return other


class ApiTable:
    """The APIs of one role; their handlers are in `shared` or modules of `package`, named as the API."""

    def __init__(
        self,
        keys: Iterable[ApiKey],
        package: str,
        *,
        shared: Mapping[ApiKey, Handle] | None = None,
        packed_by_hand: frozenset[ApiKey] = frozenset(),
        forwarded: frozenset[ApiKey] = frozenset(),
    ) -> None:
        self.served: dict[int, ServedApi] = {int(key): served_api(key) for key in keys}
        # The same as Kafka's own specs, cut to what is served: what the header parser looks up.
        self.specs: dict[int, ApiSpec] = {
            key: SPECS[key]._replace(min_version=api.min_version, max_version=api.max_version)
            for key, api in self.served.items()
        }
        # Served, but answered by another node: they have no handler here.
        self.forwarded: frozenset[int] = frozenset(int(key) for key in forwarded)
        self._package = package
        self._packed_by_hand = packed_by_hand
        self.shared = shared or {}

    def load(self, api_key: int) -> Handler:
        """Return the handler of an API; imports its module."""
        key = self.served[api_key].key
        if key in self.shared:
            return Handler(self.shared[key], None, packs_frames=False)
        module = importlib.import_module(f"{self._package}.{key.name.lower()}")
        return Handler(module.handle, getattr(module, "read", None), packs_frames=key in self._packed_by_hand)


def served_api(key: ApiKey) -> ServedApi:
    """Return the versions of one API that are served."""
    spec = SPECS[key]
    advertised = ADVERTISED_PRODUCE_MIN_VERSION if key is ApiKey.PRODUCE else spec.min_version
    max_version = STABLE_MAX_VERSIONS.get(key, spec.max_version)
    return ServedApi(key, spec.min_version, max_version, advertised)
