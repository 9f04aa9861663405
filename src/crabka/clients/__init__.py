"""Clients of a Kafka cluster: an async core (Cluster, Producer, Fetcher, Admin) and a blocking facade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.clients.admin.admin import Admin
    from crabka.clients.admin.admin_types import ConfigChange, ConfigOperation, ConfigOwner, NewTopic, ResourceType
    from crabka.clients.admin.group_types import GroupDescription, GroupListing, GroupMember, GroupOffset
    from crabka.clients.cluster.cluster import Cluster, ClusterSettings
    from crabka.clients.cluster.connection import Connection, ConnectionSettings
    from crabka.clients.errors import (
        AbortableTransactionError,
        AuthenticationError,
        ClientClosedError,
        ClientNetworkError,
        FatalTransactionError,
        ProducerFencedError,
        RequestTimeoutError,
        SaslAuthenticationError,
        SessionEndedError,
        TlsAuthenticationError,
        TransactionError,
        TransactionStateError,
        VersionMismatchError,
    )
    from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
    from crabka.clients.producer.accumulator import RecordMetadata
    from crabka.clients.producer.producer import Producer
    from crabka.clients.producer.settings import ProducerSettings
    from crabka.clients.producer.transaction_messages import GroupMembership, OffsetToCommit
    from crabka.clients.security.security import ClientSecurity
    from crabka.clients.security.settings import SecuritySettings
    from crabka.clients.sync.admin import SyncAdmin
    from crabka.clients.sync.fetcher import SyncFetcher
    from crabka.clients.sync.producer import SyncProducer

__all__ = [
    "AbortableTransactionError",
    "Admin",
    "AuthenticationError",
    "ClientClosedError",
    "ClientNetworkError",
    "ClientSecurity",
    "Cluster",
    "ClusterSettings",
    "ConfigChange",
    "ConfigOperation",
    "ConfigOwner",
    "Connection",
    "ConnectionSettings",
    "FatalTransactionError",
    "FetchedRecord",
    "Fetcher",
    "FetcherSettings",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMembership",
    "GroupOffset",
    "NewTopic",
    "OffsetReset",
    "OffsetToCommit",
    "Producer",
    "ProducerFencedError",
    "ProducerSettings",
    "RecordMetadata",
    "RequestTimeoutError",
    "ResourceType",
    "SaslAuthenticationError",
    "SecuritySettings",
    "SessionEndedError",
    "SyncAdmin",
    "SyncFetcher",
    "SyncProducer",
    "TlsAuthenticationError",
    "TransactionError",
    "TransactionStateError",
    "VersionMismatchError",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "producer.accumulator": ["RecordMetadata"],
        "admin.admin": ["Admin"],
        "admin.admin_types": ["ConfigChange", "ConfigOperation", "ConfigOwner", "NewTopic", "ResourceType"],
        "cluster.cluster": ["Cluster", "ClusterSettings"],
        "cluster.connection": ["Connection", "ConnectionSettings"],
        "errors": [
            "AbortableTransactionError",
            "AuthenticationError",
            "ClientClosedError",
            "ClientNetworkError",
            "FatalTransactionError",
            "ProducerFencedError",
            "RequestTimeoutError",
            "SaslAuthenticationError",
            "SessionEndedError",
            "TlsAuthenticationError",
            "TransactionError",
            "TransactionStateError",
            "VersionMismatchError",
        ],
        "fetcher.fetcher": ["FetchedRecord", "Fetcher", "FetcherSettings", "OffsetReset"],
        "admin.group_types": ["GroupDescription", "GroupListing", "GroupMember", "GroupOffset"],
        "producer.producer": ["Producer"],
        "producer.settings": ["ProducerSettings"],
        "security.security": ["ClientSecurity"],
        "security.settings": ["SecuritySettings"],
        "sync.admin": ["SyncAdmin"],
        "sync.fetcher": ["SyncFetcher"],
        "sync.producer": ["SyncProducer"],
        "producer.transaction_messages": ["GroupMembership", "OffsetToCommit"],
    },
)
