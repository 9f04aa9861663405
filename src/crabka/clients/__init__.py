"""Clients of a Kafka cluster: an async core (Cluster, Producer, Fetcher, Admin) and a blocking facade."""

from __future__ import annotations

from crabka.clients.accumulator import RecordMetadata
from crabka.clients.admin import Admin
from crabka.clients.admin_types import ConfigChange, ConfigOperation, ConfigOwner, NewTopic, ResourceType
from crabka.clients.cluster import Cluster, ClusterSettings
from crabka.clients.connection import Connection, ConnectionSettings
from crabka.clients.errors import (
    AuthenticationError,
    ClientClosedError,
    ClientNetworkError,
    RequestTimeoutError,
    SaslAuthenticationError,
    TlsAuthenticationError,
    VersionMismatchError,
)
from crabka.clients.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
from crabka.clients.group_types import GroupDescription, GroupListing, GroupMember, GroupOffset
from crabka.clients.producer import Producer, ProducerSettings
from crabka.clients.security import ClientSecurity
from crabka.clients.security_settings import SecuritySettings
from crabka.clients.sync import SyncAdmin, SyncFetcher, SyncProducer

__all__ = [
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
    "FetchedRecord",
    "Fetcher",
    "FetcherSettings",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "NewTopic",
    "OffsetReset",
    "Producer",
    "ProducerSettings",
    "RecordMetadata",
    "RequestTimeoutError",
    "ResourceType",
    "SaslAuthenticationError",
    "SecuritySettings",
    "SyncAdmin",
    "SyncFetcher",
    "SyncProducer",
    "TlsAuthenticationError",
    "VersionMismatchError",
]
